/*
 * The loads through the C ABI, on one handle for each process. floor.c has the same ones, step by step, on bare SQLite.
 *
 *     write          claims a job of its own, then renews it, then the next job; each call is counted
 *     cycle          claim_next, complete; each pair is counted
 *     chain          complete_and_claim_next; each call is counted
 *     next           claim_next, which alone is timed; then complete, and enqueue of a new job in its place
 *     enqueue-many   a hundred jobs a call; each job is counted
 *     claim-batch    a hundred jobs a call; each job is counted
 *
 * Two more measure no speed: `init FILE` makes the table and the jobs of `write`; `memory FILE` prints what the first
 * handle takes when it has worked for a while, and each more, on the same file and on others.
 */
#include "bench.h"

#include <fencepost.h>

#include <unistd.h>

/* A lease of this length outlives any run. */
static const double LONG = 1e9;

static void check(const char *what, fencepost_status status, const fencepost_error *error) {
    if (status != FENCEPOST_OK) stop("%s: %s: %s", what, fencepost_status_name(status), error->message);
}

static fencepost_db *open_file(const char *file, bool normal) {
    fencepost_options options = {.size = sizeof options, .busy_timeout_ms = 60000};
    fencepost_error error;
    fencepost_db *db;

    options.durability = normal ? FENCEPOST_DURABILITY_NORMAL : FENCEPOST_DURABILITY_FULL;
    check("open", fencepost_open(file, &options, &db, &error), &error);
    return db;
}

static void *begin_process(const struct config *config, const char *load) {
    (void)load;
    return open_file(config->file, config->normal);
}

static void end_process(void *process) { fencepost_close(process); }

/* --- write --- */

static void *begin_write(struct worker *worker) {
    (void)worker;
    return allocate(sizeof(int64_t));
}

static int step_write(struct worker *worker) {
    int64_t *fence = worker->own;
    int64_t round = worker->steps / 2 % (JOBS / worker->count);
    double now = (double)worker->steps;
    fencepost_error error;
    char id[32];

    job_id(id, worker->number + round * worker->count);
    if (worker->steps % 2 == 0)
        check("claim", fencepost_claim(worker->process, id, worker->name, now, 1.5, fence, &error), &error);
    else
        check("renew", fencepost_renew(worker->process, id, worker->name, *fence, now, 1.5, &error), &error);
    return 1;
}

static void free_own(struct worker *worker) { free(worker->own); }

/* --- cycle, next --- */

static fencepost_grant *claim_next(struct worker *worker) {
    fencepost_error error;
    fencepost_grant *grant;

    check("claim_next", fencepost_claim_next(worker->process, worker->name, 1, LONG, &grant, &error), &error);
    return grant;
}

static void complete(struct worker *worker, const fencepost_grant *grant) {
    fencepost_error error;

    check("complete",
          fencepost_complete(worker->process, grant->id, worker->name, grant->fence, 2, "done", &error), &error);
}

static int step_cycle(struct worker *worker) {
    fencepost_grant *grant = claim_next(worker);

    complete(worker, grant);
    fencepost_grant_free(grant);
    return 1;
}

static int step_next(struct worker *worker) {
    fencepost_error error;
    char id[64];
    int64_t begun = nanoseconds();
    fencepost_grant *grant = claim_next(worker);

    worker->timed = nanoseconds() - begun;
    complete(worker, grant);
    fencepost_grant_free(grant);
    snprintf(id, sizeof id, "%lld-%d-%lld", (long long)begun, worker->number, (long long)worker->steps);
    check("enqueue", fencepost_enqueue(worker->process, id, &error), &error);
    return 1;
}

/* --- chain --- */

static void *begin_chain(struct worker *worker) {
    fencepost_grant **held = allocate(sizeof *held);

    *held = claim_next(worker);
    return held;
}

static int step_chain(struct worker *worker) {
    fencepost_grant **held = worker->own;
    fencepost_error error;
    fencepost_grant *next;

    check("complete_and_claim_next",
          fencepost_complete_and_claim_next(worker->process, (*held)->id, worker->name, (*held)->fence, 2, "done", LONG,
                                            &next, &error),
          &error);
    if (next == NULL) stop("complete_and_claim_next: the table is empty");
    fencepost_grant_free(*held);
    *held = next;
    return 1;
}

static void end_chain(struct worker *worker) {
    fencepost_grant **held = worker->own;

    fencepost_grant_free(*held);
    free(held);
}

/* --- hundreds --- */

static int step_enqueue_many(struct worker *worker) {
    fencepost_error error;
    char text[BATCH][32];
    const char *ids[BATCH];

    for (int i = 0; i < BATCH; i++) {
        snprintf(text[i], sizeof text[i], "new-%d-%lld", worker->number, (long long)(worker->steps * BATCH + i));
        ids[i] = text[i];
    }
    check("enqueue_many", fencepost_enqueue_many(worker->process, ids, BATCH, NULL, &error), &error);
    return BATCH;
}

static int step_claim_batch(struct worker *worker) {
    fencepost_error error;
    fencepost_grants *grants;

    check("claim_batch", fencepost_claim_batch(worker->process, worker->name, 1, LONG, BATCH, &grants, &error), &error);
    int count = (int)grants->count;
    fencepost_grants_free(grants);
    if (count != BATCH) stop("claim_batch: the table is empty");
    return count;
}

/* --- what measures nothing --- */

static void init(const char *file) {
    fencepost_db *db = open_file(file, true);
    fencepost_error error;
    char id[32];

    check("init_db", fencepost_init_db(db, &error), &error);
    for (int64_t i = 0; i < JOBS; i++) {
        job_id(id, i);
        check("enqueue", fencepost_enqueue(db, id, &error), &error);
    }
    fencepost_close(db);
}

static long resident_kb(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file == NULL || fscanf(file, "%*s %ld", &pages) != 1) stop("/proc/self/statm cannot be read");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void use(fencepost_db *db, int steps) {
    struct worker worker = {.process = db, .name = "worker"};
    fencepost_error error;
    fencepost_job *job;

    for (worker.steps = 0; worker.steps < steps; worker.steps++) step_next(&worker);
    fencepost_grant *grant = claim_next(&worker);
    check("state", fencepost_state(db, grant->id, &job, &error), &error);
    complete(&worker, grant);
    fencepost_job_free(job);
    fencepost_grant_free(grant);
}

static void memory(const char *file) {
    enum { MORE = 64 };
    fencepost_db *all[1 + 2 * MORE];
    char other[4096];
    fencepost_error error;

    long none = resident_kb();
    all[0] = open_file(file, true);
    use(all[0], 5000);
    long first = resident_kb();
    for (int i = 1; i <= MORE; i++) {
        all[i] = open_file(file, true);
        use(all[i], 1);
    }
    long same = resident_kb();
    for (int i = MORE + 1; i <= 2 * MORE; i++) {
        snprintf(other, sizeof other, "%s-%d.db", file, i);
        all[i] = open_file(other, true);
        check("init_db", fencepost_init_db(all[i], &error), &error);
        for (int j = 0; j < 4; j++) {
            snprintf(other, sizeof other, "%lld-%d", (long long)nanoseconds(), j);
            check("enqueue", fencepost_enqueue(all[i], other, &error), &error);
        }
        use(all[i], 1);
    }
    long apart = resident_kb();
    printf("first_kb=%ld same_kb=%.1f apart_kb=%.1f\n", first - none, (double)(same - first) / MORE, (double)(apart - same) / MORE);
    for (int i = 0; i <= 2 * MORE; i++) fencepost_close(all[i]);
}

static const struct load LOADS[] = {
    {"write", begin_write, step_write, free_own},
    {"cycle", NULL, step_cycle, NULL},
    {"chain", begin_chain, step_chain, end_chain},
    {"next", NULL, step_next, NULL},
    {"enqueue-many", NULL, step_enqueue_many, NULL},
    {"claim-batch", NULL, step_claim_batch, NULL},
    {0},
};

int main(int count, char **arguments) {
    static const struct program PROGRAM = {LOADS, begin_process, end_process};

    if (count == 3 && strcmp(arguments[1], "init") == 0) {
        init(arguments[2]);
        return 0;
    }
    if (count == 3 && strcmp(arguments[1], "memory") == 0) {
        memory(arguments[2]);
        return 0;
    }
    return bench_main(count, arguments, &PROGRAM);
}

/*
 * A client with several threads, which make calls of all kinds on jobs that all clients share, and write down each call
 * and its answer; client.rb and go/client/main.go do the same.
 *
 *     client NAME PATH LOG SEED THREADS FROM TO JOBS CLOCK EPOCH DURABILITY FLAGS TIMEOUT
 *
 * Each thread makes the calls number FROM to TO (without it) and writes to LOG.0, LOG.1, ... Call number i of all
 * clients is on one of the WINDOW jobs before job number JOBS * i / TO, so the jobs change as they go on. CLOCK: see
 * `tell_time`; the clocks stood at BASE at EPOCH, which is in nanoseconds of CLOCK_MONOTONIC. DURABILITY, FLAGS and TIMEOUT
 * are the options of fencepost_open.
 *
 * A call is written before it is made, and its answer after it was given: a client that is killed in between leaves a
 * line without its second half. The README says what the lines are. For every STRIDE calls of a thread a dot goes to the
 * standard output.
 */
#include <fencepost.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 1024, LEASES = 4, MANY = 3, WINDOW = 6, STRIDE = 16, BASE = 2000, HOUR = 3600, YEAR = 31536000 };

static fencepost_db *db;
static const char *name;
static const char *clock_kind;
static long long epoch;
static int first_call;
static int last_call;
static int jobs;

struct lease {
    char job[32];
    int64_t fence;
};

struct worker {
    pthread_t thread;
    int number;
    int log;
    uint64_t random;
    char owner[64];
    struct lease leases[LEASES];
    unsigned taken;
};

static long long nanoseconds(void) {
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static unsigned below(struct worker *worker, unsigned limit) {
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 7;
    worker->random ^= worker->random << 17;
    return (unsigned)(worker->random >> 33) % limit;
}

/*
 * What the client's clock says. It goes on by a quarter of a second each millisecond: all languages hold quarters
 * exactly, and leases end while calls wait.
 */
static double tell_time(int call) {
    double now = BASE + (double)((nanoseconds() - epoch) / 1000000) / 4;

    if (strcmp(clock_kind, "zero") == 0) return 0;
    if (strcmp(clock_kind, "ahead") == 0) return now + 20;
    if (strcmp(clock_kind, "back") == 0 && call / 16 % 4 == 3) return now - HOUR;
    if (strcmp(clock_kind, "year") == 0 && call % 32 == 31) return now + YEAR;
    return now;
}

/* One write, so that a client that is killed leaves no half of it. */
static void put(const struct worker *worker, const char *text) {
    if (write(worker->log, text, strlen(text)) != (ssize_t)strlen(text)) abort();
}

static void call(const struct worker *worker, const char *format, ...) {
    char line[LINE];
    int length = snprintf(line, sizeof line, "%lld ", nanoseconds());
    va_list words;

    va_start(words, format);
    vsnprintf(line + length, sizeof line - (size_t)length, format, words);
    va_end(words);
    put(worker, line);
}

/* `ended`: what `nanoseconds` said right after the call. */
static void answer(const struct worker *worker, long long ended, fencepost_status status, const char *more) {
    char line[LINE];

    snprintf(line, sizeof line, " => %lld %s%s\n", ended, fencepost_status_name(status) + strlen("FENCEPOST_"),
             status == FENCEPOST_OK ? more : "");
    put(worker, line);
}

static void keep(struct worker *worker, const char *job, int64_t fence) {
    struct lease *lease = &worker->leases[worker->taken++ % LEASES];

    snprintf(lease->job, sizeof lease->job, "%s", job);
    lease->fence = fence;
}

/* A grant as it stands in an answer. */
static void add_grant(struct worker *worker, char *line, size_t size, const fencepost_grant *grant) {
    size_t length = strlen(line);

    snprintf(line + length, size - length, " %s %lld", grant->id, (long long)grant->fence);
    keep(worker, grant->id, grant->fence);
}

static void enqueue(const struct worker *worker, const char *job) {
    fencepost_status status;

    call(worker, "enqueue %s", job);
    status = fencepost_enqueue(db, job, NULL);
    answer(worker, nanoseconds(), status, "");
}

static void enqueue_at(const struct worker *worker, const char *job, double not_before) {
    fencepost_status status;

    call(worker, "enqueue_at %s %.17g", job, not_before);
    status = fencepost_enqueue_at(db, job, not_before, NULL);
    answer(worker, nanoseconds(), status, "");
}

static void enqueue_many(const struct worker *worker, unsigned newest) {
    char names[MANY][32];
    const char *ids[MANY];
    bool added[MANY];
    char more[LINE] = "";
    fencepost_status status;
    long long ended;

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "j%u", newest + i);
        ids[i] = names[i];
    }
    call(worker, "enqueue_many %s %s %s", ids[0], ids[1], ids[2]);
    status = fencepost_enqueue_many(db, ids, MANY, added, NULL);
    ended = nanoseconds();
    for (unsigned i = 0; i < MANY; i++) strcat(more, added[i] ? " true" : " false");
    answer(worker, ended, status, more);
}

static void state(const struct worker *worker, const char *job) {
    char more[LINE] = "";
    fencepost_job *row;
    fencepost_status status;
    long long ended;

    call(worker, "state %s", job);
    status = fencepost_state(db, job, &row, NULL);
    ended = nanoseconds();
    if (row != NULL) {
        snprintf(more, sizeof more, " %s %.17g %lld %s %s", row->owner ? row->owner : "null", row->until,
                 (long long)row->fence, row->result ? row->result : "null", row->done ? "true" : "false");
    }
    fencepost_job_free(row);
    answer(worker, ended, status, more);
}

static void claim(struct worker *worker, const char *job, double now, double ttl) {
    char more[64];
    int64_t fence;
    fencepost_status status;
    long long ended;

    call(worker, "claim %s %s %.17g %.17g", job, worker->owner, now, ttl);
    status = fencepost_claim(db, job, worker->owner, now, ttl, &fence, NULL);
    ended = nanoseconds();
    snprintf(more, sizeof more, " %lld", (long long)fence);
    if (status == FENCEPOST_OK) keep(worker, job, fence);
    answer(worker, ended, status, more);
}

static void claim_many(struct worker *worker, const char *job, double now, double ttl) {
    char other[72];
    const char *owners[2] = {worker->owner, other};
    int64_t fences[2];
    char more[64];
    fencepost_status status;
    long long ended;

    snprintf(other, sizeof other, "%s.other", worker->owner);
    call(worker, "claim_many %s %.17g %.17g %s %s", job, now, ttl, owners[0], owners[1]);
    status = fencepost_claim_many(db, job, owners, 2, now, ttl, fences, NULL);
    ended = nanoseconds();
    snprintf(more, sizeof more, " %lld %lld", (long long)fences[0], (long long)fences[1]);
    if (fences[0] > 0) keep(worker, job, fences[0]);
    answer(worker, ended, status, more);
}

static void claim_next(struct worker *worker, double now, double ttl) {
    char more[LINE] = "";
    fencepost_grant *grant;
    fencepost_status status;
    long long ended;

    call(worker, "claim_next %s %.17g %.17g", worker->owner, now, ttl);
    status = fencepost_claim_next(db, worker->owner, now, ttl, &grant, NULL);
    ended = nanoseconds();
    if (grant != NULL) add_grant(worker, more, sizeof more, grant);
    fencepost_grant_free(grant);
    answer(worker, ended, status, more);
}

static void claim_batch(struct worker *worker, double now, double ttl) {
    char more[LINE] = "";
    fencepost_grants *grants;
    fencepost_status status;
    long long ended;

    call(worker, "claim_batch %s %.17g %.17g %d", worker->owner, now, ttl, MANY);
    status = fencepost_claim_batch(db, worker->owner, now, ttl, MANY, &grants, NULL);
    ended = nanoseconds();
    for (size_t i = 0; grants != NULL && i < grants->count; i++) {
        add_grant(worker, more, sizeof more, grants->grants[i]);
    }
    fencepost_grants_free(grants);
    answer(worker, ended, status, more);
}

/* Whether it has the lease. */
static bool renew(const struct worker *worker, const struct lease *lease, const char *owner, double now, double ttl) {
    fencepost_status status;

    call(worker, "renew %s %s %lld %.17g %.17g", lease->job, owner, (long long)lease->fence, now, ttl);
    status = fencepost_renew(db, lease->job, owner, lease->fence, now, ttl, NULL);
    answer(worker, nanoseconds(), status, "");
    return status == FENCEPOST_OK;
}

static void complete(const struct worker *worker, const struct lease *lease, const char *owner, double now,
                     const char *result) {
    fencepost_status status;

    call(worker, "complete %s %s %lld %.17g %s", lease->job, owner, (long long)lease->fence, now, result ? result : "null");
    status = fencepost_complete(db, lease->job, owner, lease->fence, now, result, NULL);
    answer(worker, nanoseconds(), status, "");
}

static void complete_and_claim_next(struct worker *worker, const struct lease *lease, const char *owner, double now,
                                    const char *result, double ttl) {
    char more[LINE] = "";
    fencepost_grant *next;
    fencepost_status status;
    long long ended;

    call(worker, "complete_and_claim_next %s %s %lld %.17g %s %.17g", lease->job, owner, (long long)lease->fence, now,
         result ? result : "null", ttl);
    status = fencepost_complete_and_claim_next(db, lease->job, owner, lease->fence, now, result, ttl, &next, NULL);
    ended = nanoseconds();
    if (next != NULL) add_grant(worker, more, sizeof more, next);
    fencepost_grant_free(next);
    answer(worker, ended, status, more);
}

static void release(const struct worker *worker, const struct lease *lease, const char *owner) {
    fencepost_status status;

    call(worker, "release %s %s %lld", lease->job, owner, (long long)lease->fence);
    status = fencepost_release(db, lease->job, owner, lease->fence, NULL);
    answer(worker, nanoseconds(), status, "");
}

static void release_at(const struct worker *worker, const struct lease *lease, const char *owner, double not_before) {
    fencepost_status status;

    call(worker, "release_at %s %s %lld %.17g", lease->job, owner, (long long)lease->fence, not_before);
    status = fencepost_release_at(db, lease->job, owner, lease->fence, not_before, NULL);
    answer(worker, nanoseconds(), status, "");
}

/* Its newest lease, mostly. */
static const struct lease *choose(struct worker *worker) {
    if (below(worker, 4) > 0) return &worker->leases[(worker->taken - 1) % LEASES];
    return &worker->leases[below(worker, worker->taken < LEASES ? worker->taken : LEASES)];
}

/* Forgets its newest lease, but not always, so that it comes back to some that it has lost. */
static void forget(struct worker *worker) {
    if (below(worker, 4) > 0) worker->taken--;
}

/* Does something with a lease that it had at some time; now and then under a wrong fence or a wrong name. */
static void use(struct worker *worker, int i, double now, double ttl) {
    struct lease lease = *choose(worker);
    const char *owner = below(worker, 20) == 0 ? "stranger" : worker->owner;
    unsigned wrong = below(worker, 20);
    unsigned kind = below(worker, 100);
    char text[128];
    const char *result = text;

    if (wrong == 0) lease.fence--;
    if (wrong == 1) lease.fence++;
    snprintf(text, sizeof text, "%s:%lld:%d", owner, (long long)lease.fence, i);
    if (below(worker, 8) == 0) result = NULL;
    /* Every second job is never completed, so that its fence rises high. */
    if (kind >= 70 && strtoul(lease.job + 1, NULL, 10) % 2 == 0) kind -= 40;
    if (kind < 35) {
        if (!renew(worker, &lease, owner, now, ttl)) forget(worker);
        return;
    }
    forget(worker);
    if (kind < 60) {
        release(worker, &lease, owner);
    } else if (kind < 70) {
        release_at(worker, &lease, owner, now + ttl - 8);
    } else if (kind < 88) {
        complete(worker, &lease, owner, now, result);
    } else {
        complete_and_claim_next(worker, &lease, owner, now, result, ttl);
    }
}

static void step(struct worker *worker, int i) {
    unsigned newest = (unsigned)((long long)jobs * i / last_call);
    unsigned back = below(worker, WINDOW);
    unsigned kind = below(worker, 100);
    double now = tell_time(i);
    double ttl = 0.25 * (double)(1U << below(worker, 8));
    char job[32];

    snprintf(job, sizeof job, "j%u", back > newest ? 0 : newest - back);
    if (kind < 5) {
        enqueue(worker, job);
    } else if (kind < 9) {
        enqueue_at(worker, job, now + ttl - 8);
    } else if (kind < 10) {
        enqueue_many(worker, newest);
    } else if (kind < 24) {
        state(worker, job);
    } else if (kind < 50) {
        claim(worker, job, now, ttl);
    } else if (kind < 52) {
        claim_many(worker, job, now, ttl);
    } else if (kind < 58) {
        claim_next(worker, now, ttl);
    } else if (kind < 61) {
        claim_batch(worker, now, ttl);
    } else if (worker->taken > 0) {
        use(worker, i, now, ttl);
    } else {
        claim(worker, job, now, ttl);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;

    for (int i = first_call; i < last_call; i++) {
        step(worker, i);
        if (i % STRIDE == STRIDE - 1 && write(STDOUT_FILENO, ".", 1) != 1) abort();
    }
    return NULL;
}

/* Another client may be at it too, and one that is not patient is told BUSY then. */
static void open_file(const char *path, int durability, unsigned flags, int timeout) {
    fencepost_options options = {.size = sizeof options};
    fencepost_error error;
    fencepost_status status;

    options.durability = durability;
    options.flags = flags;
    options.busy_timeout_ms = timeout;
    do {
        status = fencepost_open(path, &options, &db, &error);
    } while (status == FENCEPOST_BUSY);
    if (status == FENCEPOST_OK) {
        do {
            status = fencepost_init_db(db, &error);
        } while (status == FENCEPOST_BUSY);
    }
    if (status != FENCEPOST_OK) {
        fprintf(stderr, "open: %s\n", error.message);
        exit(1);
    }
}

int main(int count, char **arguments) {
    struct worker *workers;
    int threads;

    if (count != 14) return 2;
    name = arguments[1];
    threads = atoi(arguments[5]);
    first_call = atoi(arguments[6]);
    last_call = atoi(arguments[7]);
    jobs = atoi(arguments[8]);
    clock_kind = arguments[9];
    epoch = atoll(arguments[10]);
    open_file(arguments[2], atoi(arguments[11]), (unsigned)atoi(arguments[12]), atoi(arguments[13]));

    workers = calloc((size_t)threads, sizeof *workers);
    if (workers == NULL) abort();
    for (int i = 0; i < threads; i++) {
        struct worker *worker = &workers[i];
        char path[4096];

        worker->number = i;
        worker->random = (strtoull(arguments[4], NULL, 10) + 1) * 2654435761U + (unsigned)i * 40503U + 1;
        /* Some share a name, and one that is started again has that of the one before. */
        snprintf(worker->owner, sizeof worker->owner, "%s.%d", name, i % 2);
        snprintf(path, sizeof path, "%s.%d", arguments[3], i);
        worker->log = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (worker->log < 0) abort();
        if (pthread_create(&worker->thread, NULL, work, worker) != 0) abort();
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(workers[i].thread, NULL);
        close(workers[i].log);
    }
    free(workers);
    fencepost_close(db);
    return 0;
}

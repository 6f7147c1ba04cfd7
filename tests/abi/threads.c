/* Many threads on one handle, and other programs at the file. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

static fencepost_error error;

/* --- 32 threads on one handle --- */

enum { THREADS = 32, SHARED = 8, ROUNDS = 60, MAX_FENCE = THREADS * ROUNDS + 1 };

static fencepost_db *db;
static pthread_barrier_t start;
/* Who was granted each fence of each shared job: 0 is nobody, n is thread n - 1. */
static atomic_int granted[SHARED][MAX_FENCE];
static atomic_int grants, completions;

/* The threads' clock: it never stands still, so that leases of others run out under them. */
static atomic_int ticks;
static double now(void) { return atomic_fetch_add(&ticks, 1); }

static void on_a_shared_job(int self, const char *owner, int job, int round) {
    char id[32], result[32];
    int64_t fence;
    fencepost_error detail;

    snprintf(id, sizeof id, "shared %d", job);
    fencepost_status status = fencepost_claim(db, id, owner, now(), 20, &fence, &detail);
    if (status == FENCEPOST_HELD || status == FENCEPOST_DONE) return;
    if (status != FENCEPOST_OK) fail(__FILE__, __LINE__, "%s", detail.message);
    CHECK(fence > 0 && fence < MAX_FENCE);
    if (atomic_exchange(&granted[job][fence], self + 1) != 0) fail(__FILE__, __LINE__, "fence %d twice", (int)fence);
    atomic_fetch_add(&grants, 1);

    switch (round % 4) {
    case 0: /* walks away */ return;
    case 1:
        status = fencepost_release(db, id, owner, fence, &detail);
        CHECK(status == FENCEPOST_OK || status == FENCEPOST_STALE || status == FENCEPOST_DONE);
        return;
    case 2:
        status = fencepost_renew(db, id, owner, fence, now(), 20, &detail);
        CHECK(status == FENCEPOST_OK || status == FENCEPOST_STALE || status == FENCEPOST_EXPIRED || status == FENCEPOST_DONE);
        return;
    default:
        if (round < ROUNDS / 2) return;
        snprintf(result, sizeof result, "%d", (int)fence);
        status = fencepost_complete(db, id, owner, fence, now(), result, &detail);
        CHECK(status == FENCEPOST_OK || status == FENCEPOST_STALE || status == FENCEPOST_EXPIRED || status == FENCEPOST_DONE);
        if (status == FENCEPOST_OK) atomic_fetch_add(&completions, 1);
    }
}

static void on_an_own_job(const char *owner, int round) {
    char id[32];
    int64_t fence;
    fencepost_job *job;
    fencepost_error detail;

    snprintf(id, sizeof id, "%s's %d", owner, round);
    CHECK(fencepost_enqueue(db, id, &detail) == FENCEPOST_OK);
    CHECK(fencepost_claim(db, id, owner, 0, 1e9, &fence, &detail) == FENCEPOST_OK && fence == 1);
    CHECK(fencepost_complete(db, id, owner, fence, 1, owner, &detail) == FENCEPOST_OK);
    CHECK(fencepost_state(db, id, &job, &detail) == FENCEPOST_OK);
    CHECK(job->done && strcmp(job->result, owner) == 0);
    fencepost_job_free(job);
}

static void *work(void *argument) {
    int self = (int)(intptr_t)argument;
    char owner[16];

    snprintf(owner, sizeof owner, "thread %d", self);
    pthread_barrier_wait(&start);
    for (int round = 0; round < ROUNDS; round++) {
        on_a_shared_job(self, owner, (self + round) % SHARED, round);
        if (round % 6 == 0) on_an_own_job(owner, round);
    }
    return NULL;
}

static void threads_on_one_handle(void) {
    pthread_t threads[THREADS];
    fencepost_options options = {.size = sizeof options, .busy_timeout_ms = 120000};
    char id[32];
    fencepost_job *job;
    int done = 0;

    ANSWERS(FENCEPOST_OK, fencepost_open("jobs.db", &options, &db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    for (int index = 0; index < SHARED; index++) {
        snprintf(id, sizeof id, "shared %d", index);
        ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, id, &error));
    }
    CHECK(pthread_barrier_init(&start, NULL, THREADS) == 0);
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work, (void *)(intptr_t)index) == 0);
    }
    for (int index = 0; index < THREADS; index++) CHECK(pthread_join(threads[index], NULL) == 0);

    int64_t fences = 0;
    for (int index = 0; index < SHARED; index++) {
        snprintf(id, sizeof id, "shared %d", index);
        ANSWERS(FENCEPOST_OK, fencepost_state(db, id, &job, &error));
        fences += job->fence;
        /* None was left out, and the last one is the row's. */
        for (int64_t fence = 1; fence <= job->fence; fence++) CHECK(granted[index][fence] != 0);
        for (int64_t fence = job->fence + 1; fence < MAX_FENCE; fence++) CHECK(granted[index][fence] == 0);
        if (job->done) {
            done++;
            CHECK(strtoll(job->result, NULL, 10) == job->fence);
        }
        fencepost_job_free(job);
    }
    CHECK(fences == grants && done == completions && done > 0);
    fencepost_close(db);
    CHECK(strcmp(sql("jobs.db", "PRAGMA integrity_check"), "ok") == 0);
}

/* --- many workers, one line --- */

enum { LINE = 200 };

static atomic_int worked[LINE];

static void *work_on_the_line(void *argument) {
    char owner[16];
    fencepost_grant *grant, *next;
    fencepost_error detail;

    snprintf(owner, sizeof owner, "worker %d", (int)(intptr_t)argument);
    fencepost_status status = fencepost_claim_next(db, owner, 0, 1e9, &grant, &detail);
    CHECK(status == FENCEPOST_OK || status == FENCEPOST_NOT_FOUND);
    while (grant != NULL) {
        atomic_fetch_add(&worked[strtol(grant->id, NULL, 10)], 1);
        CHECK(fencepost_complete_and_claim_next(db, grant->id, owner, grant->fence, 1, owner, 1e9, &next, &detail) ==
              FENCEPOST_OK);
        fencepost_grant_free(grant);
        grant = next;
    }
    return NULL;
}

static void each_job_of_a_line_goes_to_one_worker(void) {
    static char names[LINE][16];
    const char *ids[LINE];
    pthread_t threads[THREADS];
    uint64_t count;

    db = open_ready("jobs.db");
    for (int index = 0; index < LINE; index++) {
        snprintf(names[index], sizeof names[index], "%d", index);
        ids[index] = names[index];
    }
    ANSWERS(FENCEPOST_OK, fencepost_enqueue_many(db, ids, LINE, NULL, &error));
    for (int index = 0; index < THREADS; index++) {
        CHECK(pthread_create(&threads[index], NULL, work_on_the_line, (void *)(intptr_t)index) == 0);
    }
    for (int index = 0; index < THREADS; index++) CHECK(pthread_join(threads[index], NULL) == 0);
    for (int index = 0; index < LINE; index++) CHECK(atomic_load(&worked[index]) == 1);
    ANSWERS(FENCEPOST_OK, fencepost_count(db, FENCEPOST_CONDITION_DONE, 1, &count, &error));
    CHECK(count == LINE);
    CHECK(strcmp(sql("jobs.db", "SELECT min(fence), max(fence), count(*) FROM jobs WHERE done"), "1|1|200") == 0);
    fencepost_close(db);
}

/* --- handles that come and go --- */

static void *open_and_close(void *argument) {
    char id[32];
    fencepost_error detail;

    for (int round = 0; round < 40; round++) {
        fencepost_db *own;

        if (fencepost_open("jobs.db", NULL, &own, &detail) != FENCEPOST_OK) fail(__FILE__, __LINE__, "%s", detail.message);
        snprintf(id, sizeof id, "%d/%d", (int)(intptr_t)argument, round);
        CHECK(fencepost_init_db(own, &detail) == FENCEPOST_OK && fencepost_enqueue(own, id, &detail) == FENCEPOST_OK);
        fencepost_close(own);
    }
    return NULL;
}

static int open_descriptors(void) {
    int count = 0;

    for (int fd = 0; fd < 4096; fd++) count += lseek(fd, 0, SEEK_CUR) >= 0;
    return count;
}

static void handles_that_come_and_go(void) {
    pthread_t threads[8];

    fencepost_close(open_ready("jobs.db"));
    open_and_close((void *)-1);
    int before = open_descriptors();
    for (int index = 0; index < 8; index++) {
        CHECK(pthread_create(&threads[index], NULL, open_and_close, (void *)(intptr_t)index) == 0);
    }
    for (int index = 0; index < 8; index++) CHECK(pthread_join(threads[index], NULL) == 0);
    CHECK(strcmp(sql("jobs.db", "SELECT count(*) FROM jobs; PRAGMA integrity_check"), "360\nok") == 0);
    /* As many as were in use at once, at the most; not one for every handle. */
    int after_first = open_descriptors();
    for (int index = 100; index < 105; index++) open_and_close((void *)(intptr_t)index);
    CHECK(open_descriptors() <= after_first && after_first - before <= 3 * 8);
}

static void one_descriptor_for_every_file_until_it_is_deleted(void) {
    char name[16];
    int before = open_descriptors();

    for (int index = 0; index < 50; index++) {
        snprintf(name, sizeof name, "%d.db", index);
        fencepost_close(open_ready(name));
        shell("rm %s %s-wal %s-shm", name, name, name);
    }
    fencepost_close(open_ready("last.db"));
    CHECK(open_descriptors() - before <= 6);
}

/* --- other programs --- */

/* The sqlite3 command with a transaction open, until its input ends. */
static FILE *lock_held(const char *begin) {
    char command[200];

    snprintf(command, sizeof command, "sqlite3 jobs.db > locked");
    CHECK(mkfifo("locked", 0600) == 0);
    FILE *input = popen(command, "w");
    CHECK(input != NULL);
    fprintf(input, "%s; SELECT 'locked';\n", begin);
    fflush(input);
    FILE *output = fopen("locked", "r");
    char line[20] = "";
    CHECK(output != NULL);
    while (strcmp(line, "locked\n") != 0) CHECK(fgets(line, sizeof line, output) != NULL);
    fclose(output);
    return input;
}

static void a_busy_file(void) {
    fencepost_options options = {.size = sizeof options, .busy_timeout_ms = -1};
    int64_t fence;
    fencepost_job *job;

    ANSWERS(FENCEPOST_OK, fencepost_open("jobs.db", &options, &db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));

    FILE *holder = lock_held("BEGIN IMMEDIATE");
    ANSWERS(FENCEPOST_BUSY, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    CHECK(fence == 0);
    ANSWERS(FENCEPOST_BUSY, fencepost_enqueue(db, "b", &error));
    ANSWERS(FENCEPOST_BUSY, fencepost_renew(db, "a", "w", 1, 1, 1, &error));
    ANSWERS(FENCEPOST_BUSY, fencepost_complete(db, "a", "w", 1, 1, NULL, &error));
    ANSWERS(FENCEPOST_BUSY, fencepost_release(db, "a", "w", 1, &error));
    /* Reading goes on. */
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "a", &job, &error));
    CHECK(job->fence == 0 && job->owner == NULL);
    fencepost_job_free(job);
    CHECK(pclose(holder) == 0);

    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    CHECK(fence == 1);
    fencepost_close(db);
}

/* Its threads are in each other's way, but a refusal was read from the row. */
static void claim_many_without_wait_is_refused_as_claim_is(void) {
    fencepost_options options = {.size = sizeof options, .busy_timeout_ms = -1};
    const char *owners[40];
    int64_t fence, fences[40];

    for (int index = 0; index < 40; index++) owners[index] = "v";
    ANSWERS(FENCEPOST_OK, fencepost_open("jobs.db", &options, &db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 1, 10, &fence, &error));
    for (int round = 0; round < 30; round++) {
        ANSWERS(FENCEPOST_HELD, fencepost_claim_many(db, "a", owners, 40, 2, 10, fences, &error));
    }
    fencepost_close(db);
}

/* How many open-file-description locks there are on a file (proc_locks(5)); other programs take POSIX locks. */
static int our_locks(const char *path) {
    struct stat status;
    char line[200], inode[32];
    int count = 0;
    FILE *locks = fopen("/proc/locks", "r");

    CHECK(locks != NULL && stat(path, &status) == 0);
    snprintf(inode, sizeof inode, ":%lu ", (unsigned long)status.st_ino);
    while (fgets(line, sizeof line, locks) != NULL) count += strstr(line, "OFDLCK") != NULL && strstr(line, inode) != NULL;
    fclose(locks);
    return count;
}

/* The files live on, because another program has them open, and so do our descriptors. */
static void no_lock_is_left_after_the_last_close(void) {
    fencepost_db *second;

    db = open_ready("jobs.db");
    FILE *other = lock_held("BEGIN; SELECT count(*) FROM jobs");
    ANSWERS(FENCEPOST_OK, fencepost_open("jobs.db", NULL, &second, &error));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(second, "a", &error));
    fencepost_close(second);
    CHECK(our_locks("jobs.db") > 0 && our_locks("jobs.db-shm") > 0);
    fencepost_close(db);
    CHECK(our_locks("jobs.db") == 0 && our_locks("jobs.db-shm") == 0);
    CHECK(pclose(other) == 0);
}

static void *claim_a(void *fence) {
    fencepost_error detail;

    return (void *)(intptr_t)fencepost_claim(db, "a", "w", 1, 1, fence, &detail);
}

static void a_call_that_waits_gets_its_turn_when_the_lock_is_let_go(void) {
    fencepost_options options = {.size = sizeof options, .busy_timeout_ms = 120000};
    pthread_t waiting;
    int64_t fence;
    void *status;

    ANSWERS(FENCEPOST_OK, fencepost_open("jobs.db", &options, &db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    FILE *holder = lock_held("BEGIN IMMEDIATE");
    CHECK(pthread_create(&waiting, NULL, claim_a, &fence) == 0);
    CHECK(pclose(holder) == 0);
    CHECK(pthread_join(waiting, &status) == 0 && (intptr_t)status == FENCEPOST_OK && fence == 1);
    fencepost_close(db);
}

/* A reader of another program, in a rollback mode, keeps a commit from ending. */
static void a_reader_in_the_way_of_a_commit(void) {
    fencepost_options options = {
        .size = sizeof options, .busy_timeout_ms = -1, .flags = FENCEPOST_OPEN_KEEP_JOURNAL_MODE};
    int64_t fence;

    ANSWERS(FENCEPOST_OK, fencepost_open("jobs.db", &options, &db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    FILE *holder = lock_held("BEGIN; SELECT count(*) FROM jobs WHERE 0");
    ANSWERS(FENCEPOST_BUSY, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    CHECK(pclose(holder) == 0);
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    CHECK(fence == 1);
    fencepost_close(db);
}

int main(int count, char **arguments) {
    static const struct test tests[] = {
        {"large: 32 threads on one handle", threads_on_one_handle},
        {"each job of a line goes to one worker", each_job_of_a_line_goes_to_one_worker},
        {"handles that come and go", handles_that_come_and_go},
        {"one descriptor for every file, until it is deleted", one_descriptor_for_every_file_until_it_is_deleted},
        {"claim_many without wait is refused as claim is", claim_many_without_wait_is_refused_as_claim_is},
        {"a busy file", a_busy_file},
        {"no lock is left after the last close", no_lock_is_left_after_the_last_close},
        {"a call that waits gets its turn when the lock is let go", a_call_that_waits_gets_its_turn_when_the_lock_is_let_go},
        {"a reader in the way of a commit", a_reader_in_the_way_of_a_commit},
        {NULL, NULL},
    };
    return run_tests(count, arguments, tests);
}

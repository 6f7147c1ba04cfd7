/*
 * A worker that does what it is told, in order: its arguments after the first one, an order each, and without such ones
 * the lines of its standard input. The first argument is "-", or "early" for one that lies: before it has added or
 * completed a job it tells that it has.
 *
 *     open PATH DURABILITY FLAGS TIMEOUT     in milliseconds
 *     init
 *     enqueue JOB
 *     enqueue_many JOB ...
 *     claim JOB OWNER NOW TTL
 *     next OWNER NOW TTL
 *     batch OWNER NOW TTL MAX
 *     renew JOB OWNER FENCE NOW TTL
 *     complete JOB OWNER FENCE NOW RESULT
 *     complete_next JOB OWNER FENCE NOW RESULT TTL
 *     release JOB OWNER FENCE
 *     release_at JOB OWNER FENCE TIME
 *     state JOB
 *     grow JOB OWNER FENCE NOW COUNT         renews it so many times, told once: the log grows
 *     alone                                  waits until the threads that the library has started have ended
 *     close
 *     storm OWNER SEED BOARD                 makes calls on jobs that others share, for ever; see below
 *
 * What it is about to do and what it was told stand on its standard output, a line and one write(2) each, so that a kill
 * leaves no half of it in a file that is open with O_APPEND:
 *
 *     > ORDER
 *     < STATUS MICROSECONDS [JOB FENCE] ...
 */
#include <fcntl.h>
#include <fencepost.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 8192, WORDS = 64, NAME = 64 };

static fencepost_db *db;
static bool lies;

/* What was answered last. */
static char answered[LINE];
static char granted_job[NAME];
static int64_t granted_fence;

static void tell(const char *format, ...) {
    char line[LINE + 64];
    va_list words;
    int length;

    va_start(words, format);
    length = vsnprintf(line, sizeof line, format, words);
    va_end(words);
    if (length < 0 || (size_t)length >= sizeof line) abort();
    if (write(STDOUT_FILENO, line, (size_t)length) != length) exit(1);
}

static void add_answer(const char *format, ...) {
    size_t length = strlen(answered);
    va_list words;

    va_start(words, format);
    vsnprintf(answered + length, sizeof answered - length, format, words);
    va_end(words);
}

static void note_grant(const char *job, int64_t fence) {
    add_answer(" %s %lld", job, (long long)fence);
    snprintf(granted_job, sizeof granted_job, "%s", job);
    granted_fence = fence;
}

static double seconds(const char *word) { return strtod(word, NULL); }

static int64_t number(const char *word) { return strtoll(word, NULL, 10); }

static fencepost_status order_open(char **word, int count) {
    fencepost_options options = {.size = sizeof options};

    (void)count;
    options.durability = (int32_t)number(word[2]);
    options.flags = (uint32_t)number(word[3]);
    options.busy_timeout_ms = (int32_t)number(word[4]);
    return fencepost_open(word[1], &options, &db, NULL);
}

static fencepost_status order_init(char **word, int count) {
    (void)word;
    (void)count;
    return fencepost_init_db(db, NULL);
}

static fencepost_status order_enqueue(char **word, int count) {
    (void)count;
    return fencepost_enqueue(db, word[1], NULL);
}

static fencepost_status order_enqueue_many(char **word, int count) {
    return fencepost_enqueue_many(db, (const char *const *)(word + 1), (size_t)count - 1, NULL, NULL);
}

static fencepost_status order_claim(char **word, int count) {
    int64_t fence;
    fencepost_status status = fencepost_claim(db, word[1], word[2], seconds(word[3]), seconds(word[4]), &fence, NULL);

    (void)count;
    if (status == FENCEPOST_OK) note_grant(word[1], fence);
    return status;
}

static fencepost_status order_next(char **word, int count) {
    fencepost_grant *grant;
    fencepost_status status = fencepost_claim_next(db, word[1], seconds(word[2]), seconds(word[3]), &grant, NULL);

    (void)count;
    if (grant != NULL) note_grant(grant->id, grant->fence);
    fencepost_grant_free(grant);
    return status;
}

static fencepost_status order_batch(char **word, int count) {
    fencepost_grants *grants;
    fencepost_status status = fencepost_claim_batch(db, word[1], seconds(word[2]), seconds(word[3]),
                                                    (size_t)number(word[4]), &grants, NULL);

    (void)count;
    for (size_t i = 0; grants != NULL && i < grants->count; i++) {
        note_grant(grants->grants[i]->id, grants->grants[i]->fence);
    }
    fencepost_grants_free(grants);
    return status;
}

static fencepost_status order_renew(char **word, int count) {
    (void)count;
    return fencepost_renew(db, word[1], word[2], number(word[3]), seconds(word[4]), seconds(word[5]), NULL);
}

static fencepost_status order_complete(char **word, int count) {
    (void)count;
    return fencepost_complete(db, word[1], word[2], number(word[3]), seconds(word[4]), word[5], NULL);
}

static fencepost_status order_complete_next(char **word, int count) {
    fencepost_grant *next;
    fencepost_status status = fencepost_complete_and_claim_next(
        db, word[1], word[2], number(word[3]), seconds(word[4]), word[5], seconds(word[6]), &next, NULL);

    (void)count;
    if (next != NULL) note_grant(next->id, next->fence);
    fencepost_grant_free(next);
    return status;
}

static fencepost_status order_release(char **word, int count) {
    (void)count;
    return fencepost_release(db, word[1], word[2], number(word[3]), NULL);
}

static fencepost_status order_release_at(char **word, int count) {
    (void)count;
    return fencepost_release_at(db, word[1], word[2], number(word[3]), seconds(word[4]), NULL);
}

static fencepost_status order_state(char **word, int count) {
    fencepost_job *job;
    fencepost_status status = fencepost_state(db, word[1], &job, NULL);

    (void)count;
    if (job != NULL) {
        add_answer(" %s %.17g %lld %s %d", job->owner ? job->owner : "\\N", job->until, (long long)job->fence,
                   job->result ? job->result : "\\N", job->done);
    }
    fencepost_job_free(job);
    return status;
}

static fencepost_status order_grow(char **word, int count) {
    fencepost_status status = FENCEPOST_OK;

    (void)count;
    for (int64_t i = number(word[5]); i > 0 && status == FENCEPOST_OK; i--) {
        status = fencepost_renew(db, word[1], word[2], number(word[3]), seconds(word[4]), 1e6 + (double)i, NULL);
    }
    return status;
}

static fencepost_status order_alone(char **word, int count) {
    struct stat tasks;

    (void)word;
    (void)count;
    /* A folder in it for each thread. */
    while (stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink > 3) sched_yield();
    return FENCEPOST_OK;
}

static fencepost_status order_close(char **word, int count) {
    (void)word;
    (void)count;
    fencepost_close(db);
    db = NULL;
    return FENCEPOST_OK;
}

/* At least so many words. */
static const struct order {
    const char *name;
    int words;
    fencepost_status (*run)(char **word, int count);
} orders[] = {
    {"open", 5, order_open},
    {"init", 1, order_init},
    {"enqueue", 2, order_enqueue},
    {"enqueue_many", 2, order_enqueue_many},
    {"claim", 5, order_claim},
    {"next", 4, order_next},
    {"batch", 5, order_batch},
    {"renew", 6, order_renew},
    {"complete", 6, order_complete},
    {"complete_next", 7, order_complete_next},
    {"release", 4, order_release},
    {"release_at", 5, order_release_at},
    {"state", 2, order_state},
    {"grow", 6, order_grow},
    {"alone", 1, order_alone},
    {"close", 1, order_close},
};

static int split(char *line, char **word) {
    char *rest = NULL;
    int count = 0;

    for (char *next = strtok_r(line, " \n", &rest); next != NULL; next = strtok_r(NULL, " \n", &rest)) {
        if (count == WORDS) abort();
        word[count++] = next;
    }
    return count;
}

static const struct order *find(char **word, int count) {
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (count >= orders[i].words && strcmp(word[0], orders[i].name) == 0) return &orders[i];
    }
    fprintf(stderr, "not an order: %s\n", count > 0 ? word[0] : "");
    exit(2);
}

static long long microseconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static fencepost_status obey(const char *order) {
    char line[LINE];
    char *word[WORDS];
    const struct order *found;
    fencepost_status status;
    long long begin;
    bool early;
    int count;

    snprintf(line, sizeof line, "%s", order);
    line[strcspn(line, "\n")] = 0;
    tell("> %s\n", line);
    count = split(line, word);
    found = find(word, count);
    answered[0] = 0;
    begin = microseconds();
    early = lies && (strcmp(found->name, "enqueue") == 0 || strcmp(found->name, "complete") == 0);
    if (early) tell("< OK 0\n");
    status = found->run(word, count);
    if (!early) {
        tell("< %s %lld%s\n", fencepost_status_name(status) + strlen("FENCEPOST_"), microseconds() - begin, answered);
    }
    return status;
}

/* What the clients of a storm share: a clock that goes up with every call of anyone, and how many jobs there are. */
struct board {
    _Atomic long long clock;
    _Atomic long long jobs;
};

enum { NEWEST = 10 };

static uint64_t chance;

static int below(int limit) {
    chance ^= chance << 13;
    chance ^= chance >> 7;
    chance ^= chance << 17;
    return (int)((chance >> 33) % (uint64_t)limit);
}

static fencepost_status claim_something(struct board *board, const char *owner, long long now) {
    char order[LINE];
    long long job = atomic_load(&board->jobs) - 1 - below(NEWEST);

    if (below(4) == 0) {
        snprintf(order, sizeof order, "next %s %lld %d", owner, now, 5 + below(40));
    } else {
        snprintf(order, sizeof order, "claim j%lld %s %lld %d", job < 0 ? 0 : job, owner, now, 5 + below(40));
    }
    return obey(order);
}

/* Whether the lease is still wanted. */
static bool use_lease(const char *job, const char *owner, long long fence, long long now) {
    char order[LINE];
    int kind = below(100);
    bool keep = false;

    if (kind < 50) {
        snprintf(order, sizeof order, "renew %s %s %lld %lld %d", job, owner, fence, now, 5 + below(40));
        keep = true;
    } else if (kind < 70) {
        snprintf(order, sizeof order, "complete %s %s %lld %lld %s:%lld", job, owner, fence, now, owner, fence);
    } else if (kind < 75) {
        snprintf(order, sizeof order, "complete_next %s %s %lld %lld %s:%lld %d", job, owner, fence, now, owner, fence,
                 5 + below(40));
    } else if (kind < 92) {
        snprintf(order, sizeof order, "release %s %s %lld", job, owner, fence);
    } else {
        snprintf(order, sizeof order, "release_at %s %s %lld %lld", job, owner, fence, now + 5 + below(40));
    }
    return obey(order) == FENCEPOST_OK && keep;
}

static _Noreturn void storm(const char *owner, uint64_t seed, const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    struct board *board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char order[LINE];
    char job[NAME] = "";
    long long fence = 0;

    if (board == MAP_FAILED) abort();
    chance = (seed + 1) * 0x9E3779B97F4A7C15U;
    for (;;) {
        long long now = atomic_fetch_add(&board->clock, 1) + 1;

        if (below(12) == 0) {
            snprintf(order, sizeof order, "enqueue j%lld", atomic_fetch_add(&board->jobs, 1));
            obey(order);
        } else if (fence == 0) {
            if (claim_something(board, owner, now) == FENCEPOST_OK) {
                snprintf(job, sizeof job, "%s", granted_job);
                fence = granted_fence;
            }
        } else if (!use_lease(job, owner, fence, now)) {
            fence = 0;
        }
    }
}

static void obey_or_storm(char *line) {
    char owner[NAME];
    char path[LINE];
    unsigned long long seed;

    if (strlen(line) >= LINE) abort();
    if (sscanf(line, "storm %63s %llu %8191s", owner, &seed, path) == 3) storm(owner, seed, path);
    obey(line);
}

int main(int argc, char **argv) {
    char line[LINE];

    if (argc < 2) return 2;
    /* A test that was killed leaves nobody behind. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    lies = strcmp(argv[1], "early") == 0;
    for (int i = 2; i < argc; i++) obey_or_storm(argv[i]);
    while (argc == 2 && fgets(line, sizeof line, stdin) != NULL) obey_or_storm(line);
    return 0;
}

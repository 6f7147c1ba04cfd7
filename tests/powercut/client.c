/*
 * A worker that does what it is told on its standard input, a line each, and writes each call and its answer into the
 * log of recorder.c.
 *
 *     open PATH DURABILITY FLAGS
 *     also PATH DURABILITY        opens it once more: a storm uses both, and `other` changes over
 *     other
 *     init
 *     enqueue JOB
 *     claim JOB NOW TTL
 *     renew JOB FENCE NOW TTL
 *     complete JOB FENCE NOW RESULT
 *     release JOB FENCE
 *     state JOB
 *     next NOW TTL
 *     storm THREADS COUNT SEED    that many threads make that many calls each: all kinds of them, on jobs that all
 *                                 clients share and on some of their own, by the clock of the log
 *     watch THREADS COUNT SEED    the same, but they only look
 *
 * It answers a line each: the status of the call; of a storm IO when any call of it failed.
 *
 * In the log, a call is "OPERATION JOB [OWNER [FENCE]] ...", an answer "STATUS ...", with tabs between the words, and
 * "\N" for NULL or where there is no such thing. A call through a handle at NORMAL begins with "~". Every claim has an
 * owner of its own and every lease another end, so that no two rows of a job are the same.
 */
#include "recorder.h"

#include <fencepost.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma weak recorder_call
#pragma weak recorder_answer
#pragma weak recorder_tick

enum { LINE = 2048, LEASES = 8, MANY = 3 };

struct handle {
    fencepost_db *db;
    bool weak;
};

static struct handle handles[2];

/* The handle of this thread. */
static _Thread_local struct handle *at;

static const char *name;

struct lease {
    char job[64];
    char owner[64];
    int64_t fence;
};

static void call(const char *format, ...) {
    char line[LINE] = "~";
    va_list words;

    va_start(words, format);
    vsnprintf(line + 1, sizeof line - 1, format, words);
    va_end(words);
    if (recorder_call) recorder_call(at->weak ? line : line + 1);
}

static fencepost_status answer(fencepost_status status, const char *more) {
    char line[LINE + 64];

    snprintf(line, sizeof line, "%s%s", fencepost_status_name(status) + strlen("FENCEPOST_"), more);
    if (recorder_answer) recorder_answer(line);
    return status;
}

static fencepost_status init(void) {
    call("init\t\\N");
    return answer(fencepost_init_db(at->db, NULL), "");
}

static fencepost_status enqueue(const char *job) {
    call("enqueue\t%s", job);
    return answer(fencepost_enqueue(at->db, job, NULL), "");
}

static fencepost_status enqueue_at(const char *job, double not_before) {
    call("enqueue_at\t%s\t%.17g", job, not_before);
    return answer(fencepost_enqueue_at(at->db, job, not_before, NULL), "");
}

static fencepost_status enqueue_many(const char *const *jobs) {
    bool added[MANY];
    char line[LINE];
    fencepost_status status;

    call("enqueue_many\t\\N\t%s\t%s\t%s", jobs[0], jobs[1], jobs[2]);
    status = fencepost_enqueue_many(at->db, jobs, MANY, added, NULL);
    snprintf(line, sizeof line, "\t%d\t%d\t%d", added[0], added[1], added[2]);
    return answer(status, line);
}

static fencepost_status claim(const char *job, const char *owner, double now, double ttl, int64_t *fence) {
    char line[LINE];
    fencepost_status status;

    call("claim\t%s\t%s\t%.17g\t%.17g", job, owner, now, now + ttl);
    status = fencepost_claim(at->db, job, owner, now, ttl, fence, NULL);
    snprintf(line, sizeof line, "\t%lld", (long long)*fence);
    return answer(status, line);
}

static void take(struct lease *lease, const char *owner, const fencepost_grant *grant) {
    snprintf(lease->job, sizeof lease->job, "%s", grant->id);
    snprintf(lease->owner, sizeof lease->owner, "%s", owner);
    lease->fence = grant->fence;
}

static fencepost_status claim_next(const char *owner, double now, double ttl, struct lease *lease) {
    char line[LINE] = "";
    fencepost_grant *grant;
    fencepost_status status;

    call("claim_next\t\\N\t%s\t%.17g\t%.17g", owner, now, now + ttl);
    status = fencepost_claim_next(at->db, owner, now, ttl, &grant, NULL);
    if (grant != NULL) {
        snprintf(line, sizeof line, "\t%s\t%lld", grant->id, (long long)grant->fence);
        if (lease != NULL) take(lease, owner, grant);
    }
    fencepost_grant_free(grant);
    return answer(status, line);
}

static fencepost_status claim_batch(const char *owner, double now, double ttl, struct lease *lease) {
    char line[LINE] = "";
    fencepost_grants *grants;
    fencepost_status status;

    call("claim_batch\t\\N\t%s\t%.17g\t%.17g", owner, now, now + ttl);
    status = fencepost_claim_batch(at->db, owner, now, ttl, MANY, &grants, NULL);
    for (size_t i = 0; grants != NULL && i < grants->count; i++) {
        size_t length = strlen(line);
        snprintf(line + length, sizeof line - length, "\t%s\t%lld", grants->grants[i]->id,
                 (long long)grants->grants[i]->fence);
        take(lease, owner, grants->grants[i]);
    }
    fencepost_grants_free(grants);
    return answer(status, line);
}

static fencepost_status renew(const char *job, const char *owner, int64_t fence, double now, double ttl) {
    call("renew\t%s\t%s\t%lld\t%.17g\t%.17g", job, owner, (long long)fence, now, now + ttl);
    return answer(fencepost_renew(at->db, job, owner, fence, now, ttl, NULL), "");
}

static fencepost_status complete(const char *job, const char *owner, int64_t fence, double now, const char *result) {
    call("complete\t%s\t%s\t%lld\t%.17g\t%s", job, owner, (long long)fence, now, result);
    return answer(fencepost_complete(at->db, job, owner, fence, now, result, NULL), "");
}

static fencepost_status complete_and_claim_next(struct lease *lease, double now, const char *result, double ttl) {
    char line[LINE] = "\t\\N";
    char owner[sizeof lease->owner];
    fencepost_grant *next;
    fencepost_status status;

    memcpy(owner, lease->owner, sizeof owner);
    call("complete_and_claim_next\t%s\t%s\t%lld\t%.17g\t%s\t%.17g", lease->job, owner, (long long)lease->fence, now,
         result, now + ttl);
    status = fencepost_complete_and_claim_next(at->db, lease->job, owner, lease->fence, now, result, ttl, &next, NULL);
    if (next != NULL) {
        snprintf(line, sizeof line, "\t%s\t%lld", next->id, (long long)next->fence);
        take(lease, owner, next);
    }
    fencepost_grant_free(next);
    return answer(status, line);
}

static fencepost_status release(const char *job, const char *owner, int64_t fence) {
    call("release\t%s\t%s\t%lld", job, owner, (long long)fence);
    return answer(fencepost_release(at->db, job, owner, fence, NULL), "");
}

static fencepost_status release_at(const char *job, const char *owner, int64_t fence, double not_before) {
    call("release_at\t%s\t%s\t%lld\t%.17g", job, owner, (long long)fence, not_before);
    return answer(fencepost_release_at(at->db, job, owner, fence, not_before, NULL), "");
}

/* Adds a row to an answer. */
static void tell(char *line, size_t size, const fencepost_job *row) {
    size_t length = strlen(line);

    snprintf(line + length, size - length, "\t%s\t%.17g\t%lld\t%s\t%d", row->owner ? row->owner : "\\N", row->until,
             (long long)row->fence, row->result ? row->result : "\\N", row->done);
}

static fencepost_status state(const char *job) {
    char line[LINE] = "";
    fencepost_job *row;
    fencepost_status status;

    call("state\t%s", job);
    status = fencepost_state(at->db, job, &row, NULL);
    if (row != NULL) tell(line, sizeof line, row);
    fencepost_job_free(row);
    return answer(status, line);
}

static fencepost_status count(int condition, double now) {
    char line[LINE] = "";
    uint64_t number;
    fencepost_status status;

    call("count\t\\N\t%d\t%.17g", condition, now);
    status = fencepost_count(at->db, condition, now, &number, NULL);
    snprintf(line, sizeof line, "\t%llu", (unsigned long long)number);
    return answer(status, line);
}

static fencepost_status list(int condition, double now) {
    char line[LINE] = "";
    fencepost_jobs *jobs;
    fencepost_status status;

    call("list\t\\N\t%d\t%.17g\t%d", condition, now, MANY);
    status = fencepost_list(at->db, condition, now, NULL, MANY, &jobs, NULL);
    for (size_t i = 0; jobs != NULL && i < jobs->count; i++) {
        size_t length = strlen(line);
        snprintf(line + length, sizeof line - length, "\t%s", jobs->jobs[i]->id);
        tell(line, sizeof line, jobs->jobs[i]);
    }
    fencepost_jobs_free(jobs);
    return answer(status, line);
}

struct storm {
    pthread_t thread;
    struct handle *handle;
    int number;
    int count;
    uint64_t random;
    int errors;
};

static unsigned below(struct storm *storm, unsigned limit) {
    storm->random ^= storm->random << 13;
    storm->random ^= storm->random >> 7;
    storm->random ^= storm->random << 17;
    return (unsigned)(storm->random >> 33) % limit;
}

/* A time that no call was made at yet, and a lease that ends when no other one does. */
static double tick(struct storm *storm, double *ttl) {
    double now = recorder_tick ? (double)recorder_tick() : 0;

    *ttl = 1 + below(storm, 25) + now / (1 << 20);
    return now;
}

/* One of the jobs that were added last. */
static const char *shared(struct storm *storm, unsigned newest, char *job, size_t size) {
    unsigned back = below(storm, 8);

    snprintf(job, size, "shared-%u", back > newest ? 0 : newest - back);
    return job;
}

static fencepost_status look(struct storm *storm, const char *job) {
    double ttl;
    double now;

    switch (below(storm, 4)) {
    case 0: now = tick(storm, &ttl); return count(1 + (int)below(storm, 4), now);
    case 1: now = tick(storm, &ttl); return list(1 + (int)below(storm, 4), now);
    default: return state(job);
    }
}

static void *run_watch(void *argument) {
    struct storm *storm = argument;
    char job[64];

    at = storm->handle;
    for (int i = 0; i < storm->count; i++) {
        fencepost_status status = look(storm, shared(storm, (unsigned)(i / 3), job, sizeof job));
        if (status < 0) storm->errors++;
    }
    return NULL;
}

static fencepost_status add(struct storm *storm, int number) {
    char jobs[MANY][64];
    const char *all[MANY];
    double ttl;
    double now;

    for (int i = 0; i < MANY; i++) {
        snprintf(jobs[i], sizeof jobs[i], "own-%s-%d-%d-%d", name, storm->number, number, i);
        all[i] = jobs[i];
    }
    if (below(storm, 2) == 0) return enqueue_many(all);
    now = tick(storm, &ttl);
    return enqueue_at(jobs[0], now + ttl);
}

static fencepost_status grab(struct storm *storm, unsigned newest, struct lease *lease) {
    struct lease wanted = *lease;
    double ttl;
    double now = tick(storm, &ttl);
    fencepost_status status;

    snprintf(wanted.owner, sizeof wanted.owner, "%s.%d.%.0f", name, storm->number, now);
    switch (below(storm, 6)) {
    case 0: status = claim_next(wanted.owner, now, ttl, &wanted); break;
    case 1: status = claim_batch(wanted.owner, now, ttl, &wanted); break;
    default:
        shared(storm, newest, wanted.job, sizeof wanted.job);
        status = claim(wanted.job, wanted.owner, now, ttl, &wanted.fence);
        /* What is then asked for with it is refused. */
        if (status != FENCEPOST_OK) wanted.fence = 1;
    }
    *lease = wanted;
    return status;
}

static fencepost_status use(struct storm *storm, struct lease *lease) {
    char result[LINE / 4];
    unsigned kind = below(storm, 100);
    double ttl;
    double now = tick(storm, &ttl);

    snprintf(result, sizeof result, "%s by %s", lease->job, lease->owner);
    if (kind < 40) return renew(lease->job, lease->owner, lease->fence, now, ttl);
    if (kind < 50) return complete(lease->job, lease->owner, lease->fence, now, result);
    if (kind < 65) return complete_and_claim_next(lease, now, result, ttl);
    if (kind < 90) return release(lease->job, lease->owner, lease->fence);
    return release_at(lease->job, lease->owner, lease->fence, now + ttl);
}

static void *run_storm(void *argument) {
    struct storm *storm = argument;
    struct lease leases[LEASES] = {{"", "", 0}};
    char job[64];
    unsigned held = 0;
    unsigned newest = 0;

    at = storm->handle;
    for (int i = 0; i < storm->count; i++) {
        struct lease *lease = &leases[held > 0 ? below(storm, held < LEASES ? held : LEASES) : 0];
        unsigned kind = below(storm, 100);
        fencepost_status status;

        if (i % 3 == 0) {
            /* All clients share it. */
            newest = (unsigned)i / 3;
            snprintf(job, sizeof job, "shared-%u", newest);
            status = enqueue(job);
        } else if (kind < 5) {
            status = add(storm, i);
        } else if (kind < 40 || held == 0) {
            status = grab(storm, newest, &leases[held % LEASES]);
            if (status == FENCEPOST_OK) held++;
        } else if (kind < 78) {
            status = use(storm, lease);
        } else {
            status = look(storm, lease->job);
        }
        if (status < 0) storm->errors++;
    }
    return NULL;
}

static int storm(void *(*run)(void *), int threads, int calls, unsigned long long seed) {
    struct storm *all = calloc((size_t)threads, sizeof *all);
    int errors = 0;

    if (all == NULL) abort();
    for (int i = 0; i < threads; i++) {
        all[i] = (struct storm){.number = i, .count = calls};
        all[i].handle = &handles[handles[1].db != NULL ? i % 2 : 0];
        all[i].random = (seed + 1) * 2654435761U + (unsigned)i * 40503U + 1;
        if (pthread_create(&all[i].thread, NULL, run, &all[i]) != 0) abort();
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i].thread, NULL);
        errors += all[i].errors;
    }
    free(all);
    return errors;
}

static fencepost_status open_as(struct handle *handle, const char *path, int durability, unsigned flags) {
    fencepost_options options = {.size = sizeof options};

    options.durability = durability;
    options.flags = flags;
    options.busy_timeout_ms = 60000;
    handle->weak = durability == FENCEPOST_DURABILITY_NORMAL;
    return fencepost_open(path, &options, &handle->db, NULL);
}

static int obey(const char *line) {
    char word[2][256];
    unsigned long long seed;
    long long fence;
    double now;
    double ttl;
    unsigned flags;
    int durability;
    int threads;
    int calls;

    if (sscanf(line, "open %255s %d %u", word[0], &durability, &flags) == 3) {
        return open_as(&handles[0], word[0], durability, flags);
    }
    if (sscanf(line, "also %255s %d", word[0], &durability) == 2) {
        return open_as(&handles[1], word[0], durability, 0);
    }
    if (strcmp(line, "other\n") == 0) {
        at = at == handles ? handles + 1 : handles;
        return FENCEPOST_OK;
    }
    if (strcmp(line, "init\n") == 0) return init();
    if (sscanf(line, "enqueue %63s", word[0]) == 1) return enqueue(word[0]);
    if (sscanf(line, "claim %63s %lf %lf", word[0], &now, &ttl) == 3) return claim(word[0], name, now, ttl, &(int64_t){0});
    if (sscanf(line, "renew %63s %lld %lf %lf", word[0], &fence, &now, &ttl) == 4) {
        return renew(word[0], name, fence, now, ttl);
    }
    if (sscanf(line, "complete %63s %lld %lf %63s", word[0], &fence, &now, word[1]) == 4) {
        return complete(word[0], name, fence, now, word[1]);
    }
    if (sscanf(line, "release %63s %lld", word[0], &fence) == 2) return release(word[0], name, fence);
    if (sscanf(line, "state %63s", word[0]) == 1) return state(word[0]);
    if (sscanf(line, "next %lf %lf", &now, &ttl) == 2) return claim_next(name, now, ttl, NULL);
    if (sscanf(line, "storm %d %d %llu", &threads, &calls, &seed) == 3) {
        return storm(run_storm, threads, calls, seed) == 0 ? FENCEPOST_OK : FENCEPOST_IO;
    }
    if (sscanf(line, "watch %d %d %llu", &threads, &calls, &seed) == 3) {
        return storm(run_watch, threads, calls, seed) == 0 ? FENCEPOST_OK : FENCEPOST_IO;
    }
    fprintf(stderr, "client: what is %s", line);
    exit(2);
}

int main(int words, char **arguments) {
    char line[LINE];

    if (words != 2) return 2;
    name = arguments[1];
    at = handles;
    while (fgets(line, sizeof line, stdin) != NULL) {
        puts(fencepost_status_name(obey(line)) + strlen("FENCEPOST_"));
        fflush(stdout);
    }
    fencepost_close(handles[1].db);
    fencepost_close(handles[0].db);
    return 0;
}

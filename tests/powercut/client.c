/*
 * A worker that does what it is told on its standard input, a line each, and writes each call and its answer into the
 * log of recorder.c.
 *
 *     open PATH DURABILITY FLAGS
 *     init
 *     enqueue JOB
 *     claim JOB NOW TTL
 *     renew JOB FENCE NOW TTL
 *     complete JOB FENCE NOW RESULT
 *     release JOB FENCE
 *     state JOB
 *     storm THREADS COUNT SEED    that many threads make that many calls each: all kinds of them, on jobs that all
 *                                 clients share and on some of their own, by the clock of the log
 *
 * It answers a line each: the status of the call; of a storm IO when any call of it failed.
 *
 * In the log, a call is "OPERATION JOB [OWNER [FENCE]] ...", an answer "STATUS ...", with tabs between the words, and
 * "\N" for NULL. Every claim has an owner of its own and every lease another end, so that no two rows of a job are the
 * same.
 */
#include "recorder.h"

#include <fencepost.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma weak recorder_call
#pragma weak recorder_answer
#pragma weak recorder_tick

enum { LINE = 1024, LEASES = 8 };

static fencepost_db *db;
static const char *name;

struct lease {
    char job[64];
    char owner[64];
    int64_t fence;
};

static void call(const char *line) {
    if (recorder_call) recorder_call(line);
}

static fencepost_status answer(fencepost_status status, const char *more) {
    char line[LINE + 64];

    snprintf(line, sizeof line, "%s%s", fencepost_status_name(status) + strlen("FENCEPOST_"), more);
    if (recorder_answer) recorder_answer(line);
    return status;
}

static fencepost_status init(void) {
    call("init\t\\N");
    return answer(fencepost_init_db(db, NULL), "");
}

static fencepost_status enqueue(const char *job) {
    char line[LINE];

    snprintf(line, sizeof line, "enqueue\t%s", job);
    call(line);
    return answer(fencepost_enqueue(db, job, NULL), "");
}

static fencepost_status claim(const char *job, const char *owner, double now, double ttl, int64_t *fence) {
    char line[LINE];
    fencepost_status status;

    snprintf(line, sizeof line, "claim\t%s\t%s\t%.17g\t%.17g", job, owner, now, now + ttl);
    call(line);
    status = fencepost_claim(db, job, owner, now, ttl, fence, NULL);
    snprintf(line, sizeof line, "\t%lld", (long long)*fence);
    return answer(status, line);
}

static fencepost_status renew(const char *job, const char *owner, int64_t fence, double now, double ttl) {
    char line[LINE];

    snprintf(line, sizeof line, "renew\t%s\t%s\t%lld\t%.17g\t%.17g", job, owner, (long long)fence, now, now + ttl);
    call(line);
    return answer(fencepost_renew(db, job, owner, fence, now, ttl, NULL), "");
}

static fencepost_status complete(const char *job, const char *owner, int64_t fence, double now, const char *result) {
    char line[LINE];

    snprintf(line, sizeof line, "complete\t%s\t%s\t%lld\t%.17g\t%s", job, owner, (long long)fence, now, result);
    call(line);
    return answer(fencepost_complete(db, job, owner, fence, now, result, NULL), "");
}

static fencepost_status release(const char *job, const char *owner, int64_t fence) {
    char line[LINE];

    snprintf(line, sizeof line, "release\t%s\t%s\t%lld", job, owner, (long long)fence);
    call(line);
    return answer(fencepost_release(db, job, owner, fence, NULL), "");
}

static fencepost_status state(const char *job) {
    char line[LINE] = "";
    fencepost_job *row;
    fencepost_status status;

    snprintf(line, sizeof line, "state\t%s", job);
    call(line);
    status = fencepost_state(db, job, &row, NULL);
    line[0] = '\0';
    if (row != NULL) {
        snprintf(line, sizeof line, "\t%s\t%.17g\t%lld\t%s\t%d", row->owner ? row->owner : "\\N", row->until,
                 (long long)row->fence, row->result ? row->result : "\\N", row->done);
    }
    fencepost_job_free(row);
    return answer(status, line);
}

struct storm {
    pthread_t thread;
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

static void *run_storm(void *argument) {
    struct storm *storm = argument;
    struct lease leases[LEASES] = {{"", "", 0}};
    char job[64];
    char result[LINE / 4];
    int held = 0;
    int enqueued = -1;

    for (int i = 0; i < storm->count; i++) {
        struct lease *lease = &leases[held > 0 ? below(storm, held < LEASES ? (unsigned)held : LEASES) : 0];
        unsigned kind = below(storm, 100);
        fencepost_status status;
        double ttl;
        double now;

        if (i / 3 > enqueued) {
            /* All clients share it. */
            enqueued = i / 3;
            snprintf(job, sizeof job, "shared-%d", enqueued);
            status = enqueue(job);
        } else if (kind < 5) {
            snprintf(job, sizeof job, "own-%s-%d-%d", name, storm->number, i);
            status = enqueue(job);
        } else if (kind < 40 || held == 0) {
            struct lease *new = &leases[held % LEASES];
            unsigned back = below(storm, 8);
            snprintf(new->job, sizeof new->job, "shared-%u", back > (unsigned)enqueued ? 0 : (unsigned)enqueued - back);
            now = tick(storm, &ttl);
            snprintf(new->owner, sizeof new->owner, "%s.%d.%.0f", name, storm->number, now);
            status = claim(new->job, new->owner, now, ttl, &new->fence);
            if (status == FENCEPOST_OK) held++;
            /* What is then asked for with it is refused. */
            else new->fence = 1;
        } else if (kind < 55) {
            now = tick(storm, &ttl);
            status = renew(lease->job, lease->owner, lease->fence, now, ttl);
        } else if (kind < 65) {
            now = tick(storm, &ttl);
            snprintf(result, sizeof result, "%s by %s", lease->job, lease->owner);
            status = complete(lease->job, lease->owner, lease->fence, now, result);
        } else if (kind < 78) {
            status = release(lease->job, lease->owner, lease->fence);
        } else {
            status = state(lease->job);
        }
        if (status < 0) storm->errors++;
    }
    return NULL;
}

static int storm(int threads, int count, unsigned long long seed) {
    struct storm *all = calloc((size_t)threads, sizeof *all);
    int errors = 0;

    if (all == NULL) abort();
    for (int i = 0; i < threads; i++) {
        all[i] = (struct storm){.number = i, .count = count};
        all[i].random = (seed + 1) * 2654435761U + (unsigned)i * 40503U + 1;
        if (pthread_create(&all[i].thread, NULL, run_storm, &all[i]) != 0) abort();
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i].thread, NULL);
        errors += all[i].errors;
    }
    free(all);
    return errors;
}

static int obey(const char *line) {
    fencepost_options options = {.size = sizeof options};
    char word[2][256];
    unsigned long long seed;
    long long fence;
    double now;
    double ttl;
    int durability;
    int threads;
    int count;

    if (sscanf(line, "open %255s %d %d", word[0], &durability, &count) == 3) {
        options.durability = durability;
        options.flags = (uint32_t)count;
        options.busy_timeout_ms = 60000;
        return fencepost_open(word[0], &options, &db, NULL);
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
    if (sscanf(line, "storm %d %d %llu", &threads, &count, &seed) == 3) {
        return storm(threads, count, seed) == 0 ? FENCEPOST_OK : FENCEPOST_IO;
    }
    fprintf(stderr, "client: what is %s", line);
    exit(2);
}

int main(int count, char **arguments) {
    char line[1024];

    if (count != 2) return 2;
    name = arguments[1];
    while (fgets(line, sizeof line, stdin) != NULL) {
        puts(fencepost_status_name(obey(line)) + strlen("FENCEPOST_"));
        fflush(stdout);
    }
    fencepost_close(db);
    return 0;
}

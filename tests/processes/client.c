/*
 * A worker that does what it is told on its standard input, a line each, and prints what the library answered;
 * client.rb and go/client.go do the same.
 *
 *     open PATH          opens the file
 *     race PATH          opens a file that may not be there, makes the table, adds "job", and claims it
 *     work COUNT CLOCK   claims, renews, releases and completes, by a clock that stands at CLOCK
 *
 * An answer is a line "OPERATION JOB FENCE STATUS"; a line "." ends a command's.
 */
#include <fencepost.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fencepost_db *db;
static const char *name;

static fencepost_status tell(const char *operation, const char *job, int64_t fence, fencepost_status status) {
    printf("%s %s %lld %s\n", operation, job, (long long)fence, fencepost_status_name(status) + strlen("FENCEPOST_"));
    return status;
}

static int64_t claim(const char *job, double now) {
    int64_t fence;
    fencepost_status status = fencepost_claim(db, job, name, now, 50, &fence, NULL);

    tell("claim", job, fence, status);
    return fence;
}

static void complete(const char *job, int64_t fence, double now) {
    char result[128];

    snprintf(result, sizeof result, "%s:%lld", name, (long long)fence);
    tell("complete", job, fence, fencepost_complete(db, job, name, fence, now, result, NULL));
}

static void work(int count, double clock) {
    char job[128];

    for (int i = 0; i < count; i++) {
        int64_t fence = claim("relay", 0);
        if (fence > 0) {
            tell("renew", "relay", fence, fencepost_renew(db, "relay", name, fence, 0, 50, NULL));
            tell("release", "relay", fence, fencepost_release(db, "relay", name, fence, NULL));
        }

        snprintf(job, sizeof job, "shared-%d", i);
        fence = claim(job, 0);
        if (fence > 0) complete(job, fence, 0);

        snprintf(job, sizeof job, "taken-over-%d", i);
        fence = claim(job, clock);
        if (fence > 0) complete(job, fence, clock);

        snprintf(job, sizeof job, "own-%s-%d", name, i);
        tell("enqueue", job, 0, fencepost_enqueue(db, job, NULL));
        fence = claim(job, 0);
        if (fence > 0) complete(job, fence, 0);
    }
}

static void race(const char *path) {
    int64_t fence;

    fencepost_close(db);
    tell("open", "-", 0, fencepost_open(path, NULL, &db, NULL));
    tell("init_db", "-", 0, fencepost_init_db(db, NULL));
    tell("enqueue", "job", 0, fencepost_enqueue(db, "job", NULL));
    fence = claim("job", 0);
    if (fence > 0) complete("job", fence, 0);
}

int main(int count, char **arguments) {
    char line[4096];
    char word[4096];
    int jobs;
    double clock;

    if (count != 2) return 2;
    name = arguments[1];
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "open %4095s", word) == 1) {
            tell("open", "-", 0, fencepost_open(word, NULL, &db, NULL));
        } else if (sscanf(line, "race %4095s", word) == 1) {
            race(word);
        } else if (sscanf(line, "work %d %lf", &jobs, &clock) == 2) {
            work(jobs, clock);
        } else {
            return 2;
        }
        puts(".");
        fflush(stdout);
    }
    fencepost_close(db);
    return 0;
}

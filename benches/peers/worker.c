/*
 * A worker on fencepost in C; see worker.py. As "fencepost-chain" it reports a job done and takes the next one in one
 * call, as "fencepost-normal" it asks for the durability NORMAL.
 */
#include <fencepost.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static fencepost_db *db;

static void check(fencepost_status status) {
    if (status == FENCEPOST_OK) return;
    fprintf(stderr, "fencepost answered %s\n", fencepost_status_name(status));
    exit(1);
}

static double milliseconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void make(int count) {
    char id[16];

    check(fencepost_init_db(db, NULL));
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%d", i);
        check(fencepost_enqueue(db, id, NULL));
    }
}

static fencepost_grant *take(void) {
    fencepost_grant *grant;
    fencepost_status status = fencepost_claim_next(db, "worker", fencepost_now(), 60, &grant, NULL);

    if (status != FENCEPOST_NOT_FOUND) check(status);
    return grant;
}

/* Reports the job done, and answers the next one, or NULL. */
static fencepost_grant *done(bool chain, fencepost_grant *grant) {
    fencepost_grant *next = NULL;
    double now = fencepost_now();

    if (chain)
        check(fencepost_complete_and_claim_next(db, grant->id, "worker", grant->fence, now, NULL, 60, &next, NULL));
    else
        check(fencepost_complete(db, grant->id, "worker", grant->fence, now, NULL, NULL));
    fencepost_grant_free(grant);
    return chain ? next : take();
}

static void work(bool chain, int synchronous) {
    enum { MOST = 1000000 };
    static int jobs[MOST];
    int count = 0;
    double longest = 0;

    puts("ready");
    fflush(stdout);
    while (getchar() != '\n') continue;
    double begun = milliseconds();
    for (fencepost_grant *grant = take(); grant != NULL;) {
        if (count < MOST) jobs[count++] = atoi(grant->id);
        grant = done(chain, grant);
        double over = milliseconds();
        if (over - begun > longest) longest = over - begun;
        begun = over;
    }
    puts("done");
    fflush(stdout);
    printf("{\"jobs\": [");
    for (int i = 0; i < count; i++) printf("%s%d", i == 0 ? "" : ", ", jobs[i]);
    printf("], \"longest_ms\": %.3f, \"again\": 0, \"synchronous\": %d}\n", longest, synchronous);
}

int main(int count, char **arguments) {
    fencepost_options options = {.size = sizeof options};
    char file[4096];

    if (count < 4) return 2;
    bool normal = strcmp(arguments[1], "fencepost-normal") == 0 && (count == 4 || strcmp(arguments[4], "full") != 0);
    options.durability = normal ? FENCEPOST_DURABILITY_NORMAL : FENCEPOST_DURABILITY_FULL;
    snprintf(file, sizeof file, "%s/queue.db", arguments[3]);
    check(fencepost_open(file, &options, &db, NULL));
    if (strcmp(arguments[2], "make") == 0) make(count > 4 ? atoi(arguments[4]) : 0);
    else work(strcmp(arguments[1], "fencepost-chain") == 0, normal ? 1 : 2);
    fencepost_close(db);
    return 0;
}

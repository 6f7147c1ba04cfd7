/*
 * What a call costs in C; go/main.go and ruby/calls.rb do the same, so that the difference is the language's.
 *
 *     calls FILE
 *
 * cheap: claim_many for nobody, which passes every border and does nothing behind it. claim: one at NORMAL. Of each the
 * median over batches, in microseconds a call, so that a checkpoint, or another program's turn, is not in it.
 */
#include <fencepost.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BATCHES = 201, CHEAP = 2000, CLAIMS = 50 };

static fencepost_db *db;
static int64_t calls;

static void check(fencepost_status status) {
    if (status == FENCEPOST_OK) return;
    fprintf(stderr, "calls: %s\n", fencepost_status_name(status));
    exit(1);
}

static void cheap(void) { check(fencepost_claim_many(db, "job-0000", NULL, 0, 1, 1, NULL, NULL)); }

static void claim(void) {
    int64_t fence;

    /* Each finds the one before it over. */
    check(fencepost_claim(db, "job-0000", "worker", (double)++calls, 0.5, &fence, NULL));
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double microseconds(void (*call)(void), int size) {
    static double batches[BATCHES];

    for (int i = 0; i < BATCHES; i++) {
        struct timespec begun, over;
        clock_gettime(CLOCK_MONOTONIC, &begun);
        for (int j = 0; j < size; j++) call();
        clock_gettime(CLOCK_MONOTONIC, &over);
        batches[i] = ((double)(over.tv_sec - begun.tv_sec) * 1e6 + (double)(over.tv_nsec - begun.tv_nsec) / 1e3) / size;
    }
    qsort(batches, BATCHES, sizeof *batches, by_size);
    return batches[BATCHES / 2];
}

int main(int count, char **arguments) {
    fencepost_options options = {.size = sizeof options, .durability = FENCEPOST_DURABILITY_NORMAL};

    if (count != 2) return 2;
    check(fencepost_open(arguments[1], &options, &db, NULL));
    double cheapest = microseconds(cheap, CHEAP);
    printf("cheap_us=%.3f claim_us=%.3f\n", cheapest, microseconds(claim, CLAIMS));
    fencepost_close(db);
    return 0;
}

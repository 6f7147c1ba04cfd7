/*
 * What the two bench programs share: the command line, the workers (processes, and threads in them), and the clock. A
 * program brings the steps; whatever is measured about them is measured here, in the same way for both.
 *
 *     PROGRAM LOAD FILE [--normal] [--processes P] [--threads T] [--seconds S] [--warmup S]
 *
 * prints one line of name=value.
 */
#ifndef FENCEPOST_BENCH_H
#define FENCEPOST_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many jobs `write` goes round; each worker has a share of its own, so that no answer is a refusal. */
enum { JOBS = 1024 };
/* How many rows the loads in hundreds take at once. */
enum { BATCH = 100 };

struct config {
    const char *file;
    bool normal; /* not every commit is synced */
    int processes, threads;
    double seconds, warmup;
};

struct worker {
    const struct config *config;
    void *process; /* what the program's begin_process gave */
    void *own;     /* what a load's begin gave */
    int number;    /* of all workers of all processes, from 0 */
    int count;     /* of workers */
    char name[32]; /* its owner in the table */
    int64_t steps; /* made by it so far; also its clock, in seconds */
    int64_t timed; /* set by a step of which only a part is timed: the nanoseconds */
};

struct load {
    const char *name;
    void *(*begin)(struct worker *worker); /* or NULL */
    int (*step)(struct worker *worker);    /* answers how many of what is counted it has done */
    void (*end)(struct worker *worker);    /* or NULL */
};

struct program {
    const struct load *loads; /* up to one without a name */
    void *(*begin_process)(const struct config *config, const char *load);
    void (*end_process)(void *process);
};

int bench_main(int count, char **arguments, const struct program *program);

/* Nanoseconds of a clock that does not go back. */
int64_t nanoseconds(void);

/* The id of a job of `write`. */
void job_id(char id[32], int64_t number);

/* Ends the program. */
__attribute__((format(printf, 1, 2), noreturn)) void stop(const char *format, ...);

void *allocate(size_t size);

#endif

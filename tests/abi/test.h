/*
 * The little that these tests share. Every test runs in a process and a folder of its own, under an alarm, so that
 * a crash or a hang is one failure with a name.
 */
#ifndef FENCEPOST_TEST_H
#define FENCEPOST_TEST_H

#include <fencepost.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test {
    const char *name;
    void (*run)(void);
};

/* Runs the tests, prints "N passed, N failed", and answers main's exit status. With --small it leaves out those whose
 * name begins with "large:"; with another argument it runs those that have it in their name. */
int run_tests(int count, char **arguments, const struct test *tests);

/* Ends the test. */
__attribute__((format(printf, 3, 4), noreturn)) void fail(const char *file, int line, const char *format, ...);
/* Ends the test as one that this machine cannot run. */
__attribute__((noreturn)) void skip(const char *why);

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) fail(__FILE__, __LINE__, "%s", #what);                                                            \
    } while (0)

/* That a call answers a status, with a message exactly when it is not OK. `error` must be in scope. */
#define ANSWERS(expected, call)                                                                                        \
    do {                                                                                                               \
        memset(&error, 'x', sizeof error);                                                                             \
        fencepost_status given_ = (call);                                                                              \
        if (given_ != (expected))                                                                                      \
            fail(__FILE__, __LINE__, "%s answered %s: %.400s", #call, fencepost_status_name(given_),                   \
                 given_ == FENCEPOST_OK ? "" : error.message);                                                         \
        check_detail(__FILE__, __LINE__, given_, &error);                                                              \
    } while (0)

void check_detail(const char *file, int line, fencepost_status status, const fencepost_error *error);

/* The test's own folder, which is also the current one. */
extern char folder[64];

/* Runs a command of the shell, which must succeed. */
__attribute__((format(printf, 1, 2))) void shell(const char *format, ...);
/* What a statement prints through the sqlite3 command: another program, another copy of SQLite. Static. */
__attribute__((format(printf, 2, 3))) const char *sql(const char *file, const char *format, ...);

/* Everything in the folder, names and bytes, as one string for comparing; without -shm files, which hold no data. Not to
 * be freed: it is kept until the test ends. */
char *snapshot(void);
extern char *kept[200];
extern size_t kept_count;

/* A file made by plain SQL with the table of the contract. */
extern const char TABLE[];

/* The file opened, init_db done. */
fencepost_db *open_ready(const char *path);

#endif

/*
 * Forks of a C program with threads, as test_fork.py asks:
 *
 *     rounds PATH LOG COUNT   forks COUNT times while threads are in the middle of operations, opening and closing
 *                             too; parent, children and children of children all work on and write what they
 *                             were told into LOG, as client.c prints it
 *     storm PATH LOG          forks from several threads at once, which also work on
 *     first PATH              forks while a thread opens the first handle of the process
 *     clone PATH              makes children by a bare clone(2), which the library cannot see
 *     claim PATH JOB          claims once without waiting for locks, and exits with the status
 */
#include <fencepost.h>

/* A thread can be stopped in the middle of an operation. */
#include "hold.c"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CHECK(what)                                                                                                    \
    do {                                                                                                               \
        if (!(what)) fail(__LINE__, #what);                                                                            \
    } while (0)

enum { THREADS = 2 };

static const char *path;
static fencepost_db *db;
static int log_file;
static atomic_bool stopped;

static _Noreturn void fail(int line, const char *what) {
    fprintf(stderr, "forks.c:%d: %s\n", line, what);
    _exit(1);
}

static fencepost_status tell(const char *operation, const char *job, int64_t fence, fencepost_status status) {
    dprintf(log_file, "%s %s %lld %s\n", operation, job, (long long)fence,
            fencepost_status_name(status) + strlen("FENCEPOST_"));
    return status;
}

static fencepost_status claim(const char *job, const char *owner, int64_t *fence) {
    fencepost_status status = fencepost_claim(db, job, owner, 0, 10, fence, NULL);

    return tell("claim", job, *fence, status);
}

static void claim_relay(fencepost_db *with, const char *owner) {
    int64_t fence;
    fencepost_status status = fencepost_claim(with, "relay", owner, 0, 10, &fence, NULL);

    tell("claim", "relay", fence, status);
    CHECK(status == FENCEPOST_OK || status == FENCEPOST_HELD);
    if (status == FENCEPOST_OK) CHECK(fencepost_release(with, "relay", owner, fence, NULL) == FENCEPOST_OK);
}

static void complete(const char *job, const char *owner, int64_t fence) {
    char result[128];

    snprintf(result, sizeof result, "%s:%lld", owner, (long long)fence);
    CHECK(tell("complete", job, fence, fencepost_complete(db, job, owner, fence, 0, result, NULL)) == FENCEPOST_OK);
}

/* A job of one's own, one that others want too, and one that goes from hand to hand. */
static void work(const char *owner, const char *shared, int number) {
    char own[128];
    int64_t fence;
    fencepost_job *row;

    snprintf(own, sizeof own, "own-%s-%d", owner, number);
    CHECK(fencepost_enqueue(db, own, NULL) == FENCEPOST_OK);
    CHECK(claim(own, owner, &fence) == FENCEPOST_OK);
    complete(own, owner, fence);
    CHECK(fencepost_state(db, own, &row, NULL) == FENCEPOST_OK);
    CHECK(row->done && row->fence == fence);
    fencepost_job_free(row);

    fencepost_status status = claim(shared, owner, &fence);
    CHECK(status == FENCEPOST_OK || status == FENCEPOST_HELD || status == FENCEPOST_DONE);
    if (status == FENCEPOST_OK) complete(shared, owner, fence);

    claim_relay(db, owner);
}

static void *work_on(void *number) {
    char owner[32];

    snprintf(owner, sizeof owner, "thread%d", *(int *)number);
    for (int i = 0; !atomic_load(&stopped); i++) work(owner, "shared-0", i);
    return NULL;
}

static void come_and_go(const char *owner) {
    fencepost_db *own;
    fencepost_job *row;

    CHECK(fencepost_open(path, NULL, &own, NULL) == FENCEPOST_OK);
    CHECK(fencepost_state(own, "relay", &row, NULL) == FENCEPOST_OK);
    fencepost_job_free(row);
    claim_relay(own, owner);
    fencepost_close(own);
}

static void *come_and_go_on(void *nothing) {
    (void)nothing;
    while (!atomic_load(&stopped)) come_and_go("guest");
    return NULL;
}

static int count_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    CHECK(folder != NULL);
    while (readdir(folder) != NULL) count++;
    closedir(folder);
    return count;
}

static void rounds(int count) {
    pthread_t threads[THREADS];
    pthread_t guest;
    int numbers[THREADS];
    char shared[32];
    int status;

    CHECK(fencepost_init_db(db, NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(db, "relay", NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(db, "shared-0", NULL) == FENCEPOST_OK);
    work("before", "shared-0", 0);
    come_and_go("before");
    /* Later a checkpoint has a connection of its own, and a reader that must sync has the log open. */
    int descriptors = count_descriptors() + 4;

    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, work_on, &numbers[i]) == 0);
    }
    CHECK(pthread_create(&guest, NULL, come_and_go_on, NULL) == 0);
    for (int i = 1; i <= count; i++) {
        snprintf(shared, sizeof shared, "shared-%d", i);
        CHECK(fencepost_enqueue(db, shared, NULL) == FENCEPOST_OK);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            work("child", shared, i);
            if (i % 10 == 0) {
                child = fork();
                CHECK(child >= 0);
                work(child == 0 ? "grandchild" : "again", shared, i);
                if (child > 0) CHECK(waitpid(child, &status, 0) == child && status == 0);
            }
            CHECK(count_descriptors() <= descriptors);
            if (i % 2 == 0) fencepost_close(db);
            _exit(0);
        }
        work("parent", shared, i);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&stopped, true);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(pthread_join(guest, NULL) == 0);
    CHECK(count_descriptors() <= descriptors);
}

static void *fork_on(void *number) {
    char owner[32];
    char shared[32];
    int status;

    snprintf(owner, sizeof owner, "forker%d", *(int *)number);
    for (int i = 0; i < 50; i++) {
        snprintf(shared, sizeof shared, "shared-%d", i);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            strcat(owner, "s-child");
            work(owner, shared, i);
            _exit(0);
        }
        work(owner, shared, i);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    return NULL;
}

/* All threads fork. */
static void storm(void) {
    pthread_t threads[THREADS];
    int numbers[THREADS];
    char shared[32];

    CHECK(fencepost_init_db(db, NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(db, "relay", NULL) == FENCEPOST_OK);
    for (int i = 0; i < 50; i++) {
        snprintf(shared, sizeof shared, "shared-%d", i);
        CHECK(fencepost_enqueue(db, shared, NULL) == FENCEPOST_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, fork_on, &numbers[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void *open_first(void *started) {
    fencepost_db *own;

    atomic_store((atomic_bool *)started, true);
    CHECK(fencepost_open(path, NULL, &own, NULL) == FENCEPOST_OK);
    fencepost_close(own);
    return NULL;
}

/* In a process that has not used the library yet: forks while a thread is in its first open, some steps into it. */
static _Noreturn void fork_in_first_open(int steps) {
    pthread_t thread;
    atomic_bool started = false;
    int status;

    CHECK(pthread_create(&thread, NULL, open_first, &started) == 0);
    while (!atomic_load(&started)) {
    }
    for (volatile int i = 0; i < steps; i++) {
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        /* Instead of hanging. */
        alarm(10);
        CHECK(fencepost_open(path, NULL, &db, NULL) == FENCEPOST_OK);
        CHECK(fencepost_init_db(db, NULL) == FENCEPOST_OK);
        fencepost_close(db);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    _exit(0);
}

static void first_opens(void) {
    int status;

    for (int i = 0; i < 400; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) fork_in_first_open(i % 40 * 500);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

static int clone_bare(void) { return (int)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }

#define UNSUPPORTED(call) CHECK((call) == FENCEPOST_UNSUPPORTED)

/* In a child of a bare clone. */
static _Noreturn void find_all_unsupported(void) {
    fencepost_db *other;
    fencepost_job *row;
    int64_t fence;
    const char *const owners[] = {"a", "b"};
    int64_t fences[2];

    /* Instead of hanging. */
    alarm(20);
    UNSUPPORTED(fencepost_init_db(db, NULL));
    UNSUPPORTED(fencepost_enqueue(db, "new", NULL));
    UNSUPPORTED(fencepost_state(db, "job", &row, NULL));
    UNSUPPORTED(fencepost_claim(db, "job", "child", 0, 10, &fence, NULL));
    UNSUPPORTED(fencepost_renew(db, "job", "child", 1, 0, 10, NULL));
    UNSUPPORTED(fencepost_complete(db, "job", "child", 1, 0, NULL, NULL));
    UNSUPPORTED(fencepost_release(db, "job", "child", 1, NULL));
    UNSUPPORTED(fencepost_claim_many(db, "job", owners, 2, 0, 10, fences, NULL));
    UNSUPPORTED(fencepost_open(path, NULL, &other, NULL));
    fencepost_close(db);
    /* fork(3) in such a child makes no better one. */
    pid_t child = fork();
    if (child == 0) {
        UNSUPPORTED(fencepost_open(path, NULL, &other, NULL));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    _exit(0);
}

static void *claim_held(void *answer) {
    int64_t fence;

    *(fencepost_status *)answer = fencepost_claim(db, "held", "parent", 0, 10, &fence, NULL);
    return NULL;
}

/* A program of its own claims without waiting for locks. It is spawned: unlike a fork that waits for no transaction. */
static fencepost_status claim_elsewhere(const char *job) {
    char *arguments[] = {"forks", "claim", (char *)path, (char *)job, NULL};
    int status;
    pid_t child;

    CHECK(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return (int8_t)WEXITSTATUS(status);
}

static void clones(void) {
    char log_name[4096];
    struct stat before;
    struct stat after;
    int64_t fence;
    int status;
    pid_t child;

    CHECK(fencepost_init_db(db, NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(db, "job", NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(db, "held", NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(db, "elsewhere", NULL) == FENCEPOST_OK);
    CHECK(fencepost_claim(db, "job", "parent", 0, 10, &fence, NULL) == FENCEPOST_OK);
    snprintf(log_name, sizeof log_name, "%s-wal", path);
    CHECK(stat(log_name, &before) == 0);

    /* The handle is idle: the child's close neither copies the log into the file nor takes it away. */
    child = clone_bare();
    if (child == 0) find_all_unsupported();
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(stat(log_name, &after) == 0 && before.st_ino == after.st_ino);
    CHECK(fencepost_renew(db, "job", "parent", fence, 1, 10, NULL) == FENCEPOST_OK);
    CHECK(claim_elsewhere("job") == FENCEPOST_HELD);

    /* A thread of the parent is in the middle of a transaction: its locks stay. */
    pthread_t thread;
    fencepost_status answer = FENCEPOST_INTERNAL;
    hold_next_commit();
    CHECK(pthread_create(&thread, NULL, claim_held, &answer) == 0);
    hold_until_reached();
    child = clone_bare();
    if (child == 0) find_all_unsupported();
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(claim_elsewhere("elsewhere") == FENCEPOST_BUSY);
    hold_let_go();
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(answer == FENCEPOST_OK);
    CHECK(claim_elsewhere("held") == FENCEPOST_HELD);
    CHECK(claim_elsewhere("elsewhere") == FENCEPOST_OK);
}

static int open_log(const char *log) {
    int fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    return fd;
}

int main(int count, char **arguments) {
    fencepost_options options = {.size = sizeof options};

    if (count < 3) return 2;
    if (strcmp(arguments[1], "claim") == 0) options.busy_timeout_ms = -1;
    path = arguments[2];
    if (strcmp(arguments[1], "first") == 0) {
        first_opens();
        return 0;
    }
    CHECK(fencepost_open(path, &options, &db, NULL) == FENCEPOST_OK);
    if (strcmp(arguments[1], "rounds") == 0 && count == 5) {
        log_file = open_log(arguments[3]);
        rounds(atoi(arguments[4]));
    } else if (strcmp(arguments[1], "storm") == 0 && count == 4) {
        log_file = open_log(arguments[3]);
        storm();
    } else if (strcmp(arguments[1], "clone") == 0 && count == 3) {
        clones();
    } else if (strcmp(arguments[1], "claim") == 0 && count == 4) {
        int64_t fence;
        return (uint8_t)fencepost_claim(db, arguments[3], "elsewhere", 0, 10, &fence, NULL);
    } else {
        return 2;
    }
    fencepost_close(db);
    return 0;
}

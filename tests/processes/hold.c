/*
 * Preloaded into the tests: stops a thread in the middle of its commit, with the transaction's locks held, or in the
 * sync of the write-ahead log that follows, or in between, for as long as a test likes. So a test can act at a moment that otherwise
 * passes in a fraction of a millisecond.
 */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

void hold_next_commit(void);
void hold_next_unlock(void);
void hold_next_sync(void);
void hold_until_reached(void);
void hold_let_go(void);
int hold_log_syncs(void);
long hold_log_bytes(void);
void hold_fail_syncs(int count);
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset);

static atomic_bool commit_armed;
static atomic_bool unlock_armed;
static atomic_bool sync_armed;
static atomic_int log_syncs;
static atomic_long log_bytes;
static atomic_int failing;
static sem_t reached;
static sem_t let_go;

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0 && errno == EINTR) {
    }
}

/* The next commit of this process stops before it can be seen. */
void hold_next_commit(void) { atomic_store(&commit_armed, true); }

/* The next one stops when it can be seen, before it gives up the write lock. In WAL mode alone. */
void hold_next_unlock(void) { atomic_store(&unlock_armed, true); }

/* The next sync of the log stops, when the commit can be seen and its locks are given up. */
void hold_next_sync(void) { atomic_store(&sync_armed, true); }

/* Waits until it has. */
void hold_until_reached(void) { wait_for(&reached); }

void hold_let_go(void) { sem_post(&let_go); }

static void stop_if(atomic_bool *armed) {
    if (!atomic_exchange(armed, false)) return;
    sem_post(&reached);
    wait_for(&let_go);
}

static bool ends_with(int fd, const char *suffix) {
    char link[32], name[4096];
    size_t end = strlen(suffix);

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name);
    return length > (ssize_t)end && memcmp(name + length - end, suffix, end) == 0;
}

static bool is_log(int fd) { return ends_with(fd, "-wal"); }

/* In WAL mode a commit writes to the log. */
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    if (is_log(fd)) {
        atomic_fetch_add(&log_bytes, (long)count);
        stop_if(&commit_armed);
    }
    return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

/* The byte of the -shm file that is SQLite's write lock (https://www.sqlite.org/walformat.html#locks). */
enum { WRITE_LOCK = 120 };

static int fcntl_with(int fd, int command, void *argument) {
    if (command == F_OFD_SETLK && atomic_load(&unlock_armed)) {
        const struct flock *request = argument;
        if (request->l_type == F_UNLCK && request->l_start == WRITE_LOCK && ends_with(fd, "-shm")) {
            stop_if(&unlock_armed);
        }
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

/* Every argument that there is fits into a pointer. */
#define FCNTL(name)                                     \
    int name(int fd, int command, ...) {                \
        va_list more;                                   \
        va_start(more, command);                        \
        void *argument = va_arg(more, void *);          \
        va_end(more);                                   \
        return fcntl_with(fd, command, argument);       \
    }

FCNTL(fcntl)
FCNTL(fcntl64)

/* How often the log was synced. */
int hold_log_syncs(void) { return atomic_load(&log_syncs); }

/* How many bytes were written to it. */
long hold_log_bytes(void) { return atomic_load(&log_bytes); }

/* So many syncs, of whatever file, fail. */
void hold_fail_syncs(int count) { atomic_store(&failing, count); }

/* In the rollback modes a commit syncs the journal, with the exclusive lock held. */
static int sync_with(long call, int fd) {
    if (atomic_load(&sync_armed) && is_log(fd)) stop_if(&sync_armed);
    if (atomic_load(&commit_armed) && ends_with(fd, "-journal")) stop_if(&commit_armed);
    if (is_log(fd)) atomic_fetch_add(&log_syncs, 1);
    if (atomic_load(&failing) > 0 && atomic_fetch_sub(&failing, 1) > 0) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, fd);
}

int fdatasync(int fd) { return sync_with(SYS_fdatasync, fd); }

int fsync(int fd) { return sync_with(SYS_fsync, fd); }

/*
 * Preloaded into the process under test: lets calls on the files below FAULTS_FOLDER fail, and allocations of SQLite's
 * own. Nothing fails before `faults_arm`, nor after `faults_disarm`. The calls of all other files go through as they are.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* In the order of KINDS in injection.py. */
enum kind { OPEN, READ, WRITE, SYNC, TRUNCATE, ALLOCATE, LOCK, MAP, STAT, UNLINK, MEMORY };

/* In the order of HOWS in injection.py: the call answers an error; it does half; it says that it was done and was not. */
enum how { FAILS, HALVES, LIES };

static struct {
    enum kind kind;
    enum how how;
    int error;
    long first;   /* The number of the first such call that fails, */
    bool persists; /* and whether all after it do. */
    char file;    /* d (the database), w (-wal), s (-shm), j (-journal), b (-fencepost), f (the folder), * (any) */
    bool on_threads; /* Only on threads other than the first. */
} fault;

static atomic_bool armed;
static atomic_long seen;
static atomic_long struck;

static char folder[PATH_MAX];
static size_t folder_length;

/* Where SQLite's allocator is. */
static uintptr_t allocator[2][2];

__attribute__((constructor)) static void begin(void) {
    const char *given = getenv("FAULTS_FOLDER");

    if (given == NULL || strlen(given) >= sizeof folder) return;
    folder_length = strlen(given);
    memcpy(folder, given, folder_length + 1);
}

void faults_arm(int kind, int how, int error, long first, bool persists, char file, bool on_threads) {
    fault.kind = (enum kind)kind;
    fault.how = (enum how)how;
    fault.error = error;
    fault.first = first;
    fault.persists = persists;
    fault.file = file;
    fault.on_threads = on_threads;
    atomic_store(&seen, 0);
    atomic_store(&struck, 0);
    atomic_store(&armed, true);
}

/* How many calls were made to fail. */
long faults_disarm(void) {
    atomic_store(&armed, false);
    return atomic_load(&struck);
}

void faults_allocator(int which, uintptr_t from, uintptr_t to) {
    allocator[which][0] = from;
    allocator[which][1] = to;
}

static bool on_right_thread(void) { return !fault.on_threads || syscall(SYS_gettid) != getpid(); }

/* Counts a call, and says whether it is to fail. */
static bool strikes(void) {
    long number = atomic_fetch_add(&seen, 1) + 1;

    if (fault.persists ? number < fault.first : number != fault.first) return false;
    atomic_fetch_add(&struck, 1);
    return true;
}

static bool ends_with(const char *name, size_t length, const char *end) {
    size_t size = strlen(end);

    return length >= size && memcmp(name + length - size, end, size) == 0;
}

/* Which of a database's files a path leads to; 0 when it is none of them. */
static char file_at(const char *path, size_t length) {
    if (folder_length == 0 || length <= folder_length || memcmp(path, folder, folder_length) != 0) return 0;
    if (path[folder_length] != '/') return 0;
    if (ends_with(path, length, " (deleted)")) length -= strlen(" (deleted)");
    if (ends_with(path, length, ".db")) return 'd';
    if (ends_with(path, length, ".db-wal")) return 'w';
    if (ends_with(path, length, ".db-shm")) return 's';
    if (ends_with(path, length, ".db-journal")) return 'j';
    if (ends_with(path, length, ".db-fencepost")) return 'b';
    return 'f';
}

static bool concerns(enum kind kind, char file) {
    return file != 0 && (fault.file == '*' || fault.file == file) && fault.kind == kind && on_right_thread();
}

static bool strikes_path(enum kind kind, const char *path) {
    if (!atomic_load(&armed) || fault.kind != kind) return false;
    return concerns(kind, file_at(path, strlen(path))) && strikes();
}

static bool strikes_descriptor(enum kind kind, int fd) {
    char link[32], name[PATH_MAX];
    ssize_t length;

    if (!atomic_load(&armed) || fault.kind != kind) return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = syscall(SYS_readlinkat, AT_FDCWD, link, name, sizeof name);
    return length > 0 && concerns(kind, file_at(name, (size_t)length)) && strikes();
}

static int failed(void) {
    errno = fault.error;
    return -1;
}

/* --- open --- */

static int open_at(int at, const char *path, int flags, mode_t mode) {
    if (strikes_path(OPEN, path)) return failed();
    return (int)syscall(SYS_openat, at, path, flags, mode);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    MODE(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE(flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(at, path, flags, mode);
}

int openat64(int at, const char *path, int flags, ...) {
    MODE(flags)
    return open_at(at, path, flags, mode);
}

/* --- read and write --- */

/* How much is read or written: all of it, half of it, or nothing, which is -1. */
static ssize_t part(enum kind kind, int fd, size_t size) {
    if (!strikes_descriptor(kind, fd)) return (ssize_t)size;
    if (fault.how == HALVES) return (ssize_t)(size / 2 + size % 2);
    return failed();
}

ssize_t read(int fd, void *bytes, size_t size) {
    ssize_t some = part(READ, fd, size);
    return some < 0 ? some : syscall(SYS_read, fd, bytes, some);
}

ssize_t pread64(int fd, void *bytes, size_t size, off64_t offset) {
    ssize_t some = part(READ, fd, size);
    return some < 0 ? some : syscall(SYS_pread64, fd, bytes, some, offset);
}

ssize_t pread(int fd, void *bytes, size_t size, off_t offset) { return pread64(fd, bytes, size, offset); }

static ssize_t written(ssize_t some, size_t size) {
    return some < 0 && fault.how == LIES ? (ssize_t)size : some;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    ssize_t some = part(WRITE, fd, size);
    return some < 0 ? written(some, size) : syscall(SYS_write, fd, bytes, some);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset) {
    ssize_t some = part(WRITE, fd, size);
    return some < 0 ? written(some, size) : syscall(SYS_pwrite64, fd, bytes, some, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) { return pwrite64(fd, bytes, size, offset); }

/* The library has no use for these on a database's files. Should that change, a short one is still a whole error. */
ssize_t writev(int fd, const struct iovec *parts, int count) {
    return strikes_descriptor(WRITE, fd) ? failed() : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return strikes_descriptor(WRITE, fd) ? failed() : syscall(SYS_pwritev, fd, parts, count, offset, 0L);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return pwritev64(fd, parts, count, offset);
}

/* --- sync, size --- */

int fsync(int fd) { return strikes_descriptor(SYNC, fd) ? failed() : (int)syscall(SYS_fsync, fd); }

int fdatasync(int fd) { return strikes_descriptor(SYNC, fd) ? failed() : (int)syscall(SYS_fdatasync, fd); }

int ftruncate64(int fd, off64_t size) {
    return strikes_descriptor(TRUNCATE, fd) ? failed() : (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    return strikes_descriptor(ALLOCATE, fd) ? failed() : (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) { return fallocate64(fd, mode, offset, size); }

int posix_fallocate64(int fd, off64_t offset, off64_t size) {
    return fallocate64(fd, 0, offset, size) == 0 ? 0 : errno;
}

int posix_fallocate(int fd, off_t offset, off_t size) { return posix_fallocate64(fd, offset, size); }

/* --- locks, mappings --- */

static bool is_lock(int command) {
    switch (command) {
    case F_SETLK:
    case F_SETLKW:
    case F_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
    case F_OFD_GETLK: return true;
    default: return false;
    }
}

static int control(int fd, int command, void *argument) {
    if (is_lock(command) && strikes_descriptor(LOCK, fd)) return failed();
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fcntl(int fd, int command, ...) {
    va_list rest;

    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    va_list rest;

    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return control(fd, command, argument);
}

void *mmap64(void *address, size_t size, int rights, int flags, int fd, off64_t offset) {
    if (fd >= 0 && strikes_descriptor(MAP, fd)) {
        failed();
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, size, rights, flags, fd, offset);
}

void *mmap(void *address, size_t size, int rights, int flags, int fd, off_t offset) {
    return mmap64(address, size, rights, flags, fd, offset);
}

/* --- names --- */

static int stat_at(int at, const char *path, void *status, int flags) {
    if (*path == '\0' ? strikes_descriptor(STAT, at) : strikes_path(STAT, path)) return failed();
    return (int)syscall(SYS_newfstatat, at, path, status, flags);
}

int stat(const char *path, struct stat *status) { return stat_at(AT_FDCWD, path, status, 0); }

int stat64(const char *path, struct stat64 *status) { return stat_at(AT_FDCWD, path, status, 0); }

int lstat(const char *path, struct stat *status) { return stat_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW); }

int lstat64(const char *path, struct stat64 *status) { return stat_at(AT_FDCWD, path, status, AT_SYMLINK_NOFOLLOW); }

int fstatat(int at, const char *path, struct stat *status, int flags) { return stat_at(at, path, status, flags); }

int fstatat64(int at, const char *path, struct stat64 *status, int flags) { return stat_at(at, path, status, flags); }

int fstat(int fd, struct stat *status) { return stat_at(fd, "", status, AT_EMPTY_PATH); }

int fstat64(int fd, struct stat64 *status) { return stat_at(fd, "", status, AT_EMPTY_PATH); }

int statx(int at, const char *path, int flags, unsigned mask, struct statx *status) {
    if (*path == '\0' ? strikes_descriptor(STAT, at) : strikes_path(STAT, path)) return failed();
    return (int)syscall(SYS_statx, at, path, flags, mask, status);
}

int unlink(const char *path) {
    return strikes_path(UNLINK, path) ? failed() : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int unlinkat(int at, const char *path, int flags) {
    return strikes_path(UNLINK, path) ? failed() : (int)syscall(SYS_unlinkat, at, path, flags);
}

/* --- memory --- */

void *__libc_malloc(size_t size);
void *__libc_realloc(void *before, size_t size);

static bool strikes_allocation(const void *caller) {
    uintptr_t at = (uintptr_t)caller;

    if (!atomic_load_explicit(&armed, memory_order_acquire) || fault.kind != MEMORY) return false;
    if ((at < allocator[0][0] || at >= allocator[0][1]) && (at < allocator[1][0] || at >= allocator[1][1])) return false;
    return on_right_thread() && strikes();
}

void *malloc(size_t size) {
    if (!strikes_allocation(__builtin_return_address(0))) return __libc_malloc(size);
    errno = ENOMEM;
    return NULL;
}

void *realloc(void *before, size_t size) {
    if (!strikes_allocation(__builtin_return_address(0))) return __libc_realloc(before, size);
    errno = ENOMEM;
    return NULL;
}

/* --- time and threads --- */

/* SQLite sleeps between its tries for a lock. None of them would be let go meanwhile. */
int nanosleep(const struct timespec *time, struct timespec *left) {
    return atomic_load(&armed) ? 0 : (int)syscall(SYS_nanosleep, time, left);
}

int usleep(useconds_t time) {
    return nanosleep(&(struct timespec){.tv_sec = time / 1000000, .tv_nsec = time % 1000000 * 1000L}, NULL);
}

/* A thread that nobody waits for is one that `faults_join` waits for. */
enum { THREADS = 64 };
static pthread_t left_alone[THREADS];
static atomic_int threads;

int pthread_detach(pthread_t thread) {
    int place = atomic_fetch_add(&threads, 1);

    if (place >= THREADS) abort();
    left_alone[place] = thread;
    return 0;
}

int faults_join(void) {
    int count = atomic_exchange(&threads, 0);

    for (int i = 0; i < count; i++) pthread_join(left_alone[i], NULL);
    return count;
}

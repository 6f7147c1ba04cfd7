/*
 * Preloaded into every process that uses the database: notes what each does to the files in RECORDER_FOLDER in the log
 * RECORDER_LOG (see recorder.h), apart from -shm and -fencepost, whose content no power cut needs to keep.
 *
 * An act and its record are made under one lock, so the order of the records is that of the acts, between processes
 * too. A sync is two records with the lock free in between: it covers what stands before the first, and promises
 * nothing before the second.
 *
 * RECORDER_DELAY: how many microseconds a sync takes. On a disk in memory it takes none, and no two ever overlap.
 * RECORDER_FAULT, "WHAT:FILE:N" with FILE one of d (the database), w (-wal), j (a journal), f (the folder), and N a
 * number from 1, counted in this process, or * for each:
 *     ignore         the N-th sync of such a file does nothing and is not recorded
 *     fail           at the N-th sync the disk fails: what was to be written is lost, and each descriptor is told so
 *                    once, by this sync or its next one, unless it was opened when another had been told already
 *                    (Linux since 4.13)
 *     kill-before    the process kills itself in place of the N-th sync
 *     kill-after     the process kills itself when the N-th sync is over
 *     kill-write     the process kills itself in place of the N-th write
 *     kill-wrote     the process kills itself right after the N-th write
 *     kill-unlink    the process kills itself when it has removed its N-th such file
 *     kill-cut       the process kills itself when it has cut or grown such a file for the N-th time
 */
#include "recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CAPACITY ((size_t)1 << 30)
#define FILES 65536

/* Which file an inode is: the newest one that was given its number. */
struct file {
    uint64_t inode;
    uint32_t id;
    char kind;
    bool unlinked;
    uint32_t failures; /* of the disk, */
    uint32_t reported; /* and those that somebody was told of */
};

struct log {
    uint64_t end; /* where the next record goes, from the log's begin */
    uint64_t start;
    pthread_mutex_t mutex;
    _Atomic uint64_t ticks;
    uint64_t device;
    uint64_t folder;
    uint32_t files;
    struct file file[FILES];
};

enum { DESCRIPTORS = 4096 };

/* For each descriptor, the failures that it was told of. */
static uint32_t known[DESCRIPTORS];

static struct log *log_;
static char folder[4096];
static size_t folder_length;
static long delay;

static struct {
    char what[16];
    char kind;
    long number; /* 0: each */
    atomic_long seen;
} fault;

static void die(const char *why) {
    dprintf(2, "recorder: %s\n", why);
    abort();
}

static void lock(void) {
    int error = pthread_mutex_lock(&log_->mutex);
    /* Its owner was killed: see kill_now. */
    if (error == EOWNERDEAD) pthread_mutex_consistent(&log_->mutex);
    else if (error != 0) die("the lock of the log is broken");
}

static void unlock(void) { pthread_mutex_unlock(&log_->mutex); }

static void add(uint32_t type, uint64_t file, uint64_t number, const void *text, size_t size) {
    struct record *record = (struct record *)((char *)log_ + log_->end);
    size_t whole = sizeof *record + ((size + 7) & ~(size_t)7);

    if (log_->end + whole > CAPACITY) die("the log is full");
    record->type = type;
    record->size = (uint32_t)size;
    record->process = (uint32_t)getpid();
    record->thread = (uint32_t)syscall(SYS_gettid);
    record->file = file;
    record->number = number;
    if (size > 0) memcpy(record + 1, text, size);
    log_->end += whole;
}

static void add_alone(uint32_t type, const char *text) {
    if (log_ == NULL) return;
    lock();
    add(type, 0, 0, text, strlen(text));
    unlock();
}

void recorder_call(const char *text) { add_alone(RECORD_CALL, text); }

void recorder_answer(const char *text) { add_alone(RECORD_ANSWER, text); }

uint64_t recorder_tick(void) { return log_ == NULL ? 0 : atomic_fetch_add(&log_->ticks, 1) + 1; }

static struct file *slot(uint64_t inode) {
    size_t index = inode % FILES;

    while (log_->file[index].inode != 0 && log_->file[index].inode != inode) index = (index + 1) % FILES;
    return &log_->file[index];
}

static char kind_of(const char *name) {
    const char *end = strrchr(name, '-');

    return end == NULL ? 'd' : strcmp(end, "-wal") == 0 ? 'w' : strcmp(end, "-journal") == 0 ? 'j' : 'd';
}

int recorder_make(const char *path, const char *of) {
    pthread_mutexattr_t attributes;
    struct stat status;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct log *made;

    if (fd < 0 || syscall(SYS_ftruncate, fd, CAPACITY) != 0 || stat(of, &status) != 0) return -1;
    made = (struct log *)syscall(SYS_mmap, NULL, sizeof *made, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (made == MAP_FAILED) return -1;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&made->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    made->device = status.st_dev;
    made->folder = status.st_ino;
    made->start = made->end = (sizeof *made + 7) & ~(size_t)7;
    munmap(made, sizeof *made);
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("RECORDER_LOG");
    const char *text;
    char number[32] = "";
    void *mapped;
    int fd;

    if (path == NULL || (text = getenv("RECORDER_FOLDER")) == NULL) return;
    folder_length = strlen(text);
    if (folder_length + 1 >= sizeof folder) die("the name of the folder is too long");
    memcpy(folder, text, folder_length + 1);
    if ((text = getenv("RECORDER_DELAY")) != NULL) delay = atol(text);
    if ((text = getenv("RECORDER_FAULT")) != NULL) {
        if (sscanf(text, "%15[^:]:%c:%31s", fault.what, &fault.kind, number) != 3) die("what fault?");
        fault.number = atol(number);
    }
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
    if (fd < 0) die("there is no log");
    mapped = (void *)syscall(SYS_mmap, NULL, CAPACITY, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) die("the log cannot be mapped");
    syscall(SYS_close, fd);
    log_ = mapped;
}

/* Whether the fault strikes now. */
static bool strikes(const char *what, char kind) {
    if (fault.kind != kind || strcmp(fault.what, what) != 0) return false;
    return fault.number == 0 || atomic_fetch_add(&fault.seen, 1) + 1 == fault.number;
}

/* With the lock held, so that no other thread of the process ends between an act and its record. */
static void kill_now(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static void kill_if(const char *what, char kind) {
    if (!strikes(what, kind)) return;
    lock();
    kill_now();
}

/* The name of a file of the log's at a path, NULL for all other paths. */
static const char *name_at(int at, const char *path) {
    const char *name;
    const char *end;

    if (log_ == NULL || (at != AT_FDCWD && path[0] != '/')) return NULL;
    if (strncmp(path, folder, folder_length) != 0 || path[folder_length] != '/') return NULL;
    name = path + folder_length + 1;
    if (*name == '\0' || strchr(name, '/') != NULL) return NULL;
    end = strrchr(name, '-');
    if (end != NULL && (strcmp(end, "-shm") == 0 || strcmp(end, "-fencepost") == 0)) return NULL;
    return name;
}

/* Which of the log's files a descriptor is for; with the lock held. */
static bool find(int fd, struct file *found) {
    struct stat status;
    struct file *at;

    if (fstat(fd, &status) != 0 || status.st_dev != log_->device) return false;
    if (S_ISDIR(status.st_mode) && status.st_ino == log_->folder) {
        *found = (struct file){.inode = status.st_ino, .kind = 'f'};
        return true;
    }
    if (!S_ISREG(status.st_mode)) return false;
    at = slot(status.st_ino);
    *found = *at;
    /* The number of one that is gone may be another file's by now. */
    return at->inode != 0 && !(at->unlinked && status.st_nlink > 0);
}

static uint64_t size_of(int fd) {
    struct stat status;

    return fstat(fd, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static int open_at(int at, const char *path, int flags, mode_t mode) {
    const char *name = name_at(at, path);
    struct file found;
    struct stat status;
    bool there;
    int fd;
    int error;

    if (name == NULL) return (int)syscall(SYS_openat, at, path, flags, mode);
    lock();
    there = stat(path, &status) == 0;
    fd = (int)syscall(SYS_openat, at, path, flags, mode);
    error = errno;
    if (fd >= 0 && !there && fstat(fd, &status) == 0) {
        struct file *file = slot(status.st_ino);
        if (log_->files + 1 >= FILES) die("too many files");
        *file = (struct file){.inode = status.st_ino, .id = ++log_->files, .kind = kind_of(name)};
        add(RECORD_CREATE, file->id, 0, name, strlen(name));
    } else if (fd >= 0 && (flags & O_TRUNC) != 0 && status.st_size > 0) {
        if (find(fd, &found)) add(RECORD_SIZE, found.id, 0, NULL, 0);
    }
    if (fd >= 0 && fd < DESCRIPTORS && find(fd, &found)) known[fd] = found.reported;
    unlock();
    errno = error;
    return fd;
}

int close(int fd) {
    if (fd >= 0 && fd < DESCRIPTORS) known[fd] = 0;
    return (int)syscall(SYS_close, fd);
}

static bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

#define MODE(flags) \
    mode_t mode = 0; \
    if (takes_mode(flags)) { \
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

int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }

int creat64(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }

/* Runs a write, and records it when it is to a file of the log's. `offset` -1: where the descriptor stands. */
static ssize_t written(int fd, const struct iovec *parts, int count, off_t offset) {
    struct file file;
    ssize_t size;
    int error;

    if (log_ == NULL) {
        return offset < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0L);
    }
    lock();
    if (!find(fd, &file)) {
        unlock();
        return offset < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0L);
    }
    if (strikes("kill-write", file.kind)) kill_now();
    size = offset < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0L);
    error = errno;
    if (size > 0) {
        off_t at = offset < 0 ? syscall(SYS_lseek, fd, 0L, SEEK_CUR) - size : offset;
        ssize_t left = size;
        for (int i = 0; i < count && left > 0; i++) {
            ssize_t part = left < (ssize_t)parts[i].iov_len ? left : (ssize_t)parts[i].iov_len;
            if (part > 0) add(RECORD_WRITE, file.id, (uint64_t)at, parts[i].iov_base, (size_t)part);
            at += part;
            left -= part;
        }
    }
    if (strikes("kill-wrote", file.kind)) kill_now();
    unlock();
    errno = error;
    return size;
}

ssize_t write(int fd, const void *bytes, size_t size) {
    return written(fd, &(struct iovec){(void *)(uintptr_t)bytes, size}, 1, -1);
}

ssize_t writev(int fd, const struct iovec *parts, int count) { return written(fd, parts, count, -1); }

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset) {
    return written(fd, &(struct iovec){(void *)(uintptr_t)bytes, size}, 1, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset) { return pwrite(fd, bytes, size, offset); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return written(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return written(fd, parts, count, offset);
}

/* Runs what may change the size of a file, and records the size when it has. */
static long sized(int fd, long call, long first, long second, long third) {
    struct file file;
    uint64_t before;
    long answer;
    int error;

    if (log_ == NULL) return syscall(call, fd, first, second, third);
    lock();
    if (!find(fd, &file)) {
        unlock();
        return syscall(call, fd, first, second, third);
    }
    before = size_of(fd);
    answer = syscall(call, fd, first, second, third);
    error = errno;
    if (answer == 0 && size_of(fd) != before) add(RECORD_SIZE, file.id, size_of(fd), NULL, 0);
    if (answer == 0 && call == SYS_fallocate && first != 0) {
        add(RECORD_TROUBLE, file.id, 0, "fallocate with a mode", strlen("fallocate with a mode"));
    }
    unlock();
    kill_if("kill-cut", file.kind);
    errno = error;
    return answer;
}

int ftruncate(int fd, off_t size) { return (int)sized(fd, SYS_ftruncate, size, 0, 0); }

int ftruncate64(int fd, off64_t size) { return (int)sized(fd, SYS_ftruncate, size, 0, 0); }

int fallocate(int fd, int mode, off_t offset, off_t size) {
    return (int)sized(fd, SYS_fallocate, mode, offset, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    return (int)sized(fd, SYS_fallocate, mode, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size) {
    int before = errno;
    int error = sized(fd, SYS_fallocate, 0, offset, size) == 0 ? 0 : errno;

    errno = before;
    return error;
}

int posix_fallocate64(int fd, off64_t offset, off64_t size) { return posix_fallocate(fd, offset, size); }

static int unlink_at(int at, const char *path, int flags) {
    const char *name = name_at(at, path);
    struct stat status = {.st_ino = 0};
    int answer;
    int error;

    if (name == NULL) return (int)syscall(SYS_unlinkat, at, path, flags);
    lock();
    fstatat(at, path, &status, AT_SYMLINK_NOFOLLOW);
    answer = (int)syscall(SYS_unlinkat, at, path, flags);
    error = errno;
    if (answer == 0) {
        slot(status.st_ino)->unlinked = true;
        add(RECORD_UNLINK, 0, 0, name, strlen(name));
    }
    unlock();
    if (answer == 0) kill_if("kill-unlink", kind_of(name));
    errno = error;
    return answer;
}

int unlink(const char *path) { return unlink_at(AT_FDCWD, path, 0); }

int unlinkat(int at, const char *path, int flags) { return unlink_at(at, path, flags); }

int remove(const char *path) {
    int answer = unlink_at(AT_FDCWD, path, 0);

    return answer != 0 && errno == EISDIR ? rmdir(path) : answer;
}

static int rename_at(int from_at, const char *from, int to_at, const char *to) {
    const char *old = name_at(from_at, from);
    const char *new = name_at(to_at, to);
    char names[2 * NAME_MAX + 2];
    int answer;
    int error;

    if (old == NULL && new == NULL) return (int)syscall(SYS_renameat, from_at, from, to_at, to);
    lock();
    answer = (int)syscall(SYS_renameat, from_at, from, to_at, to);
    error = errno;
    if (answer == 0 && old != NULL && new != NULL && strlen(old) <= NAME_MAX && strlen(new) <= NAME_MAX) {
        size_t length = strlen(old) + 1;
        memcpy(names, old, length);
        memcpy(names + length, new, strlen(new));
        add(RECORD_RENAME, 0, 0, names, length + strlen(new));
    } else if (answer == 0) {
        add(RECORD_TROUBLE, 0, 0, "a rename into or out of the folder", strlen("a rename into or out of the folder"));
    }
    unlock();
    errno = error;
    return answer;
}

int rename(const char *from, const char *to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to); }

int renameat(int from_at, const char *from, int to_at, const char *to) { return rename_at(from_at, from, to_at, to); }

int link(const char *from, const char *to) {
    int answer = (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);

    if (answer == 0 && name_at(AT_FDCWD, to) != NULL) add_alone(RECORD_TROUBLE, "a hard link");
    return answer;
}

static void take_time(void) {
    struct timespec time = {delay / 1000000, delay % 1000000 * 1000};

    if (delay > 0) nanosleep(&time, NULL);
}

static int synced(int fd, long call) {
    struct file file;
    bool ours;
    int answer;
    int error;

    if (log_ == NULL) return (int)syscall(call, fd);
    lock();
    ours = find(fd, &file);
    unlock();
    if (!ours) return (int)syscall(call, fd);
    if (strikes("ignore", file.kind)) return 0;
    kill_if("kill-before", file.kind);
    lock();
    add(RECORD_SYNC, file.id, 0, NULL, 0);
    if (strikes("fail", file.kind)) {
        slot(file.inode)->failures++;
        add(RECORD_LOST, file.id, 0, NULL, 0);
    }
    unlock();
    answer = (int)syscall(call, fd);
    error = errno;
    take_time();
    lock();
    if (find(fd, &file) && file.kind != 'f' && fd < DESCRIPTORS && known[fd] != file.failures) {
        known[fd] = slot(file.inode)->reported = file.failures;
        answer = -1;
        error = EIO;
    }
    add(RECORD_SYNCED, file.id, answer == 0, NULL, 0);
    unlock();
    kill_if("kill-after", file.kind);
    errno = error;
    return answer;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }

int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

/* sync_file_range(2) promises nothing after a power cut, so it is no sync and needs no record. syncfs and msync are
 * used by nobody here. */
int syncfs(int fd) {
    add_alone(RECORD_TROUBLE, "syncfs");
    return (int)syscall(SYS_syncfs, fd);
}

static void *mapped(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    struct file file;

    if (log_ != NULL && fd >= 0 && (flags & MAP_SHARED) != 0 && (protection & PROT_WRITE) != 0) {
        lock();
        if (find(fd, &file) && file.kind != 'f') {
            add(RECORD_TROUBLE, file.id, 0, "mapped to be written", strlen("mapped to be written"));
        }
        unlock();
    }
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    return mapped(address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset) {
    return mapped(address, size, protection, flags, fd, offset);
}

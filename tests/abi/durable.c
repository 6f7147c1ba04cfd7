/*
 * What has been answered OK has been synced before. This program stands in for write, sync and unlink, and keeps count of
 * what a power cut could still undo.
 */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static fencepost_error error;

/* --- what is not on the disk yet --- */

enum { MAX_FD = 1024 };

static ino_t unsynced[MAX_FD];   /* files that were written, by the descriptor that was used */
static bool unsynced_unlink;     /* a name is gone that a power cut would bring back */
static ino_t database;           /* in WAL mode: written by checkpoints, synced before the log begins anew */
static bool begun_anew_too_early;
static int syncs;

/* -shm files are made anew after a crash (https://www.sqlite.org/walformat.html, section 2). */
static bool needs_sync(int fd) {
    char link[32], name[4096];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name);
    return !(length > 4 && memcmp(name + length - 4, "-shm", 4) == 0);
}

static bool is_unsynced(ino_t file) {
    for (int fd = 0; fd < MAX_FD; fd++) {
        if (unsynced[fd] == file) return true;
    }
    return false;
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset);
ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t offset) {
    struct stat status;

    if (fd >= 0 && fd < MAX_FD && needs_sync(fd) && fstat(fd, &status) == 0) {
        unsynced[fd] = status.st_ino;
        if (database != 0 && status.st_ino != database && offset == 0 && is_unsynced(database)) begun_anew_too_early = true;
    }
    return syscall(SYS_pwrite64, fd, bytes, count, offset);
}

int fsync(int fd) {
    struct stat status;

    if (fstat(fd, &status) != 0) return -1;
    if (S_ISDIR(status.st_mode)) unsynced_unlink = false;
    /* A sync is the file's, whatever descriptor it comes through. */
    for (int other = 0; other < MAX_FD; other++) {
        if (unsynced[other] == status.st_ino) unsynced[other] = 0;
    }
    syncs++;
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd) { return fsync(fd); }

int unlink(const char *path) {
    if (strstr(path, "-journal") != NULL) unsynced_unlink = true;
    return (int)syscall(SYS_unlink, path);
}

static bool all_on_disk(void) {
    for (int fd = 0; fd < MAX_FD; fd++) {
        if (unsynced[fd] != 0 && unsynced[fd] != database) return false;
    }
    return !unsynced_unlink && !begun_anew_too_early;
}

/* --- the tests --- */

static fencepost_db *opened(int32_t durability, uint32_t flags) {
    fencepost_options options = {.size = sizeof options, .durability = durability, .flags = flags};
    fencepost_db *db;

    ANSWERS(FENCEPOST_OK, fencepost_open("jobs.db", &options, &db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    return db;
}

#define SYNCED(call)                                                                                                   \
    do {                                                                                                               \
        int before_ = syncs;                                                                                           \
        ANSWERS(FENCEPOST_OK, call);                                                                                   \
        CHECK(syncs > before_ && all_on_disk());                                                                       \
    } while (0)

/* Every operation that changes something, on a new job each round. */
static void each_is_synced(fencepost_db *db, int rounds) {
    const char *owners[] = {"v", "w"};
    int64_t fence, fences[2];
    char id[32];

    for (int round = 0; round < rounds; round++) {
        snprintf(id, sizeof id, "job %d", round);
        SYNCED(fencepost_enqueue(db, id, &error));
        SYNCED(fencepost_claim(db, id, "w", 100, 10, &fence, &error));
        SYNCED(fencepost_renew(db, id, "w", fence, 105, 10, &error));
        SYNCED(fencepost_release(db, id, "w", fence, &error));
        SYNCED(fencepost_claim_many(db, id, owners, 2, 105, 10, fences, &error));
        int winner = fences[1] != 0;
        SYNCED(fencepost_complete(db, id, owners[winner], fences[winner], 106, "r", &error));
    }
}

/* Long enough for checkpoints, which write to the database itself. */
static void in_wal_mode(void) {
    fencepost_db *db = opened(FENCEPOST_DURABILITY_FULL, 0);

    struct stat status;

    CHECK(all_on_disk());
    CHECK(stat("jobs.db", &status) == 0);
    database = status.st_ino;
    each_is_synced(db, 400);
    database = 0;
    fencepost_close(db);
    CHECK(all_on_disk());
}

static void in_each_rollback_mode(void) {
    static const char *const modes[] = {"delete", "truncate", "persist"};

    for (int index = 0; index < 3; index++) {
        shell("rm -f jobs.db*");
        fencepost_db *db = opened(FENCEPOST_DURABILITY_FULL, FENCEPOST_OPEN_KEEP_JOURNAL_MODE);
        CHECK(strcmp(sql("jobs.db", "PRAGMA journal_mode = %s", modes[index]), modes[index]) == 0);
        each_is_synced(db, 20);
        fencepost_close(db);
    }
}

/* Shows that the counting above can fail, and what the caller has chosen. */
static void at_normal_nothing_waits_for_the_disk(void) {
    fencepost_db *db = opened(FENCEPOST_DURABILITY_NORMAL, 0);
    int64_t fence;

    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    int before = syncs;
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 100, 10, &fence, &error));
    CHECK(syncs == before && !all_on_disk());
    fencepost_close(db);
}

static void a_refusal_writes_and_syncs_nothing(void) {
    fencepost_db *db = opened(FENCEPOST_DURABILITY_FULL, 0);
    int64_t fence;

    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 100, 10, &fence, &error));
    int before = syncs;
    char *files = snapshot();
    ANSWERS(FENCEPOST_EXISTS, fencepost_enqueue(db, "a", &error));
    ANSWERS(FENCEPOST_HELD, fencepost_claim(db, "a", "v", 105, 10, &fence, &error));
    ANSWERS(FENCEPOST_STALE, fencepost_complete(db, "a", "v", 1, 105, "r", &error));
    ANSWERS(FENCEPOST_EXPIRED, fencepost_renew(db, "a", "w", 1, 110, 10, &error));
    ANSWERS(FENCEPOST_NOT_FOUND, fencepost_release(db, "b", "v", 1, &error));
    CHECK(syncs == before && all_on_disk() && strcmp(files, snapshot()) == 0);
    fencepost_close(db);
}

int main(int count, char **arguments) {
    static const struct test tests[] = {
        {"every OK is synced before, in WAL mode and over checkpoints", in_wal_mode},
        {"every OK is synced before, in each rollback mode", in_each_rollback_mode},
        {"at NORMAL nothing waits for the disk", at_normal_nothing_waits_for_the_disk},
        {"a refusal writes and syncs nothing", a_refusal_writes_and_syncs_nothing},
        {NULL, NULL},
    };
    return run_tests(count, arguments, tests);
}

/* Files of every kind: each is used, or refused with a clear status and left as it is. */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static fencepost_error error;

static fencepost_status open_with(const char *path, uint32_t flags, fencepost_db **db) {
    fencepost_options options = {.size = sizeof options, .flags = flags};

    *db = (fencepost_db *)folder; /* to see that it is written */
    fencepost_status status = fencepost_open(path, &options, db, &error);
    CHECK((*db != NULL) == (status == FENCEPOST_OK));
    return status;
}

/* Opening is refused so, whatever the flags, names the path, and leaves everything as it is. */
static void refused(fencepost_status status, const char *path) {
    static const uint32_t flags[] = {0, FENCEPOST_OPEN_EXISTING, FENCEPOST_OPEN_KEEP_JOURNAL_MODE, FENCEPOST_OPEN_READ_ONLY};
    char *before = snapshot();
    fencepost_db *db;

    for (size_t index = 0; index < sizeof flags / sizeof *flags; index++) {
        ANSWERS(status, open_with(path, flags[index], &db));
        if (strlen(path) < 200) CHECK(strstr(error.message, path) != NULL || *path == '\0');
        CHECK(strcmp(before, snapshot()) == 0);
    }
}

/* The whole life of a job works, under the fence that comes next. */
static void works_under(const char *path, int64_t next) {
    fencepost_db *db = open_ready(path);
    int64_t fence;

    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "works", &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "works", "w", 100, 10, &fence, &error));
    ANSWERS(FENCEPOST_OK, fencepost_complete(db, "works", "w", fence, 101, "r", &error));
    CHECK(fence == next);
    fencepost_close(db);
    CHECK(strcmp(sql(path, "SELECT id, owner, until, result, done FROM jobs WHERE id = 'works'"), "works|w|110.0|r|1") == 0);
    CHECK(strcmp(sql(path, "PRAGMA integrity_check"), "ok") == 0);
}

static void works(const char *path) { works_under(path, 1); }

/* --- names --- */

static void names_that_are_no_file(void) {
    refused(FENCEPOST_UNSUPPORTED, "");
    refused(FENCEPOST_UNSUPPORTED, ":memory:");
    refused(FENCEPOST_UNSUPPORTED, "file:x.db");
    refused(FENCEPOST_UNSUPPORTED, "file:x.db?nolock=1");
}

static void directories_and_what_is_not_there(void) {
    shell("mkdir here");
    refused(FENCEPOST_CANNOT_OPEN, "here");
    refused(FENCEPOST_CANNOT_OPEN, "here/");
    refused(FENCEPOST_CANNOT_OPEN, "/");
    refused(FENCEPOST_CANNOT_OPEN, ".");
    refused(FENCEPOST_CANNOT_OPEN, "..");
    refused(FENCEPOST_CANNOT_OPEN, "nowhere/x.db");
    refused(FENCEPOST_CANNOT_OPEN, "nowhere/../x.db");
    refused(FENCEPOST_CANNOT_OPEN, "x.db/");
    shell("touch file");
    refused(FENCEPOST_CANNOT_OPEN, "file/x.db");
    CHECK(strstr(error.message, "no folder") != NULL);
    refused(FENCEPOST_CANNOT_OPEN, "file/");
}

static void names_that_are_too_long(void) {
    char name[6000];

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    refused(FENCEPOST_INVALID_ARGUMENT, name);
    CHECK(strstr(error.message, "4095") != NULL);
    name[256] = '\0';
    refused(FENCEPOST_INVALID_ARGUMENT, name);
    name[246] = '\0';
    CHECK(close(open(name, O_CREAT | O_CLOEXEC, 0600)) == 0);
    refused(FENCEPOST_INVALID_ARGUMENT, name);
    CHECK(strstr(error.message, "245") != NULL);
    name[245] = '\0';
    works(name);
}

/* A path of exactly so many bytes, from / on, through a folder that is made. */
static const char *of_length(size_t length) {
    static char path[600];
    size_t end = (size_t)snprintf(path, sizeof path, "%s/", folder);

    while (length - end > 200) {
        memset(path + end, 'd', 100);
        end += 100;
        path[end] = '\0';
        CHECK(mkdir(path, 0755) == 0 || access(path, F_OK) == 0);
        path[end++] = '/';
    }
    memset(path + end, 'x', length - end);
    path[length] = '\0';
    return path;
}

static void paths_that_are_too_long(void) {
    char nowhere[600], dots[4096];
    fencepost_db *db;

    works(of_length(504));
    const char *path = of_length(505);
    ANSWERS(FENCEPOST_INVALID_ARGUMENT, open_with(path, 0, &db));
    CHECK(access(path, F_OK) != 0 && close(open(path, O_CREAT | O_CLOEXEC, 0600)) == 0);
    refused(FENCEPOST_INVALID_ARGUMENT, path);
    CHECK(strstr(error.message, "504") != NULL && strstr(error.message, "xxx)") != NULL);
    /* The reason comes first, and the path is shortened. */
    snprintf(nowhere, sizeof nowhere, "%s/nowhere/jobs.db", of_length(480));
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with(nowhere, 0, &db));
    CHECK(strncmp(error.message, "cannot be opened: ", 18) == 0 && strstr(error.message, "\xe2\x80\xa6") != NULL);
    CHECK(strstr(error.message, "/nowhere/jobs.db)") != NULL && strlen(error.message) < 400);
    /* What counts is the path without the dots that lead to it. */
    for (size_t end = 0; end < 3000; end += 2) snprintf(dots + end, sizeof dots - end, "./");
    snprintf(dots + 3000, sizeof dots - 3000, "jobs.db");
    works(dots);
}

static void what_is_no_regular_file(void) {
    CHECK(mkfifo("fifo", 0600) == 0);
    refused(FENCEPOST_CANNOT_OPEN, "fifo");
    refused(FENCEPOST_CANNOT_OPEN, "/dev/null");
    refused(FENCEPOST_CANNOT_OPEN, "/dev/zero");
    refused(FENCEPOST_CANNOT_OPEN, "/proc/self/mem/x");
}

static void a_missing_file_is_made_unless_it_must_exist(void) {
    fencepost_db *db;
    char *before = snapshot();

    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("new.db", FENCEPOST_OPEN_EXISTING, &db));
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("new.db", FENCEPOST_OPEN_READ_ONLY, &db));
    CHECK(strcmp(before, snapshot()) == 0);
    works("new.db");
    ANSWERS(FENCEPOST_OK, open_with("new.db", FENCEPOST_OPEN_EXISTING, &db));
    fencepost_close(db);
}

static void symbolic_links_are_followed(void) {
    shell("mkdir real && sqlite3 real/jobs.db \"%s\" && ln -s real/jobs.db link.db && ln -s link.db link2.db", TABLE);
    works("link2.db");
    CHECK(strcmp(sql("real/jobs.db", "SELECT count(*) FROM jobs"), "1") == 0);
    CHECK(access("link.db-wal", F_OK) != 0 && access("link2.db-wal", F_OK) != 0);
    shell("ln -s nothing dangling.db && ln -s loop.db loop.db");
    refused(FENCEPOST_CANNOT_OPEN, "dangling.db");
    refused(FENCEPOST_CANNOT_OPEN, "loop.db");
    CHECK(strstr(error.message, "look at the links") != NULL);
}

static void one_file_by_several_paths_is_one_file(void) {
    char absolute[100];
    fencepost_db *db[4];
    int64_t fence;

    shell("mkdir sub && ln -s jobs.db link.db");
    snprintf(absolute, sizeof absolute, "%s/jobs.db", folder);
    db[0] = open_ready("jobs.db");
    const char *paths[] = {absolute, "sub/../jobs.db", "link.db"};
    for (int index = 0; index < 3; index++) ANSWERS(FENCEPOST_OK, open_with(paths[index], 0, &db[index + 1]));

    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db[0], "a", &error));
    for (int64_t index = 0; index < 40; index++) {
        ANSWERS(FENCEPOST_OK, fencepost_claim(db[index % 4], "a", "w", 100. + (double)index, 1, &fence, &error));
        CHECK(fence == index + 1);
        ANSWERS(FENCEPOST_HELD, fencepost_claim(db[(index + 1) % 4], "a", "w", 100. + (double)index, 1, &fence, &error));
    }
    for (int index = 0; index < 4; index++) fencepost_close(db[index]);
    CHECK(strcmp(sql("jobs.db", "PRAGMA integrity_check"), "ok") == 0);
}

static void several_hard_links_are_refused(void) {
    shell("sqlite3 jobs.db \"%s\" && ln jobs.db other.db", TABLE);
    refused(FENCEPOST_UNSUPPORTED, "jobs.db");
    refused(FENCEPOST_UNSUPPORTED, "other.db");
    shell("rm other.db");
    works("jobs.db");
}

static void the_current_folder_may_change(void) {
    fencepost_db *db = open_ready("jobs.db");

    CHECK(chdir("/") == 0);
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    CHECK(chdir(folder) == 0);
    fencepost_close(db);
    CHECK(strcmp(sql("jobs.db", "SELECT count(*) FROM jobs"), "1") == 0);
}

/* --- contents --- */

static void what_is_no_database(void) {
    shell("echo 'dear diary' > short.txt && seq 1 5000 > long.txt && head -c 20000 /dev/urandom > encrypted && "
          "(printf 'SQLite format 3\\0'; head -c 9000 /dev/urandom) > headed && printf x > one && head -c 4096 /dev/zero > zeros");
    refused(FENCEPOST_NOT_A_DATABASE, "short.txt");
    refused(FENCEPOST_NOT_A_DATABASE, "long.txt");
    refused(FENCEPOST_NOT_A_DATABASE, "encrypted");
    refused(FENCEPOST_NOT_A_DATABASE, "headed");
    refused(FENCEPOST_NOT_A_DATABASE, "one");
    refused(FENCEPOST_NOT_A_DATABASE, "zeros");
}

static void an_empty_file_is_an_empty_database(void) {
    shell("touch empty.db");
    works("empty.db");
}

static void tables_of_another_shape(void) {
    static const char *const others[] = {
        "CREATE TABLE jobs(x)",
        "CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0, "
        "result TEXT)",
        "CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until TEXT NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0, "
        "result TEXT, done INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE jobs(id INTEGER PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0, "
        "result TEXT, done INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE jobs(id TEXT, owner TEXT, until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0, "
        "result TEXT, done INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE jobs(id TEXT PRIMARY KEY COLLATE NOCASE, owner TEXT, until REAL NOT NULL DEFAULT 0, "
        "fence INTEGER NOT NULL DEFAULT 0, result TEXT, done INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0, fence INTEGER, "
        "result TEXT, done INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0, "
        "result TEXT, done INTEGER NOT NULL DEFAULT 0, needed TEXT NOT NULL)",
        "CREATE VIEW jobs AS SELECT 'a' AS id, 'o' AS owner, 0.0 AS until, 0 AS fence, '' AS result, 0 AS done",
        "CREATE VIRTUAL TABLE jobs USING fts5(id, owner, until, fence, result, done)",
    };

    for (size_t index = 0; index < sizeof others / sizeof *others; index++) {
        shell("rm -f other.db && sqlite3 other.db \"%s\"", others[index]);
        refused(FENCEPOST_SCHEMA, "other.db");
    }
}

static void a_table_made_by_plain_sql_is_ours(void) {
    shell("sqlite3 jobs.db \"%s; INSERT INTO jobs(id) VALUES ('theirs')\"", TABLE);
    works("jobs.db");
    CHECK(strcmp(sql("jobs.db", "SELECT * FROM jobs WHERE id = 'theirs'"), "theirs||0.0|0||0") == 0);
}

static void added_columns_are_left_alone(void) {
    shell("sqlite3 jobs.db \"%s; ALTER TABLE jobs ADD note TEXT; ALTER TABLE jobs ADD tries INTEGER NOT NULL DEFAULT 3; "
          "INSERT INTO jobs(id, note, tries) VALUES ('theirs', 'n', 5)\"",
          TABLE);
    fencepost_db *db = open_ready("jobs.db");
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "ours", &error));
    fencepost_close(db);
    CHECK(strcmp(sql("jobs.db", "SELECT id, note, tries FROM jobs ORDER BY id"), "ours||3\ntheirs|n|5") == 0);
}

static void a_database_of_another_application_gets_the_table_and_nothing_else(void) {
    fencepost_db *db;
    fencepost_job *job;
    int64_t fence;

    shell("sqlite3 app.db \"PRAGMA user_version = 7; PRAGMA application_id = 99; CREATE TABLE t(a PRIMARY KEY, b); CREATE INDEX i "
          "ON t(b); CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM t WHERE a = 0; END; INSERT INTO t VALUES (1, 'x')\"");
    char *before = snapshot();
    ANSWERS(FENCEPOST_OK, open_with("app.db", 0, &db));
    ANSWERS(FENCEPOST_SCHEMA, fencepost_enqueue(db, "a", &error));
    ANSWERS(FENCEPOST_SCHEMA, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    ANSWERS(FENCEPOST_SCHEMA, fencepost_state(db, "a", &job, &error));
    CHECK(strcmp(before, snapshot()) == 0);
    CHECK(strstr(error.message, "init_db") != NULL);

    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    fencepost_close(db);
    CHECK(strcmp(sql("app.db", "SELECT name FROM sqlite_schema ORDER BY name"), "fencepost_claimable\nfencepost_deleted\nfencepost_meta\nfencepost_renamed\n"
                                                                               "fencepost_replaced\nfencepost_replacing\ni\njobs\nr\n"
                                                                               "sqlite_autoindex_jobs_1\nsqlite_autoindex_t_1\nt") == 0);
    CHECK(strcmp(sql("app.db", "PRAGMA user_version; PRAGMA application_id; SELECT * FROM t; PRAGMA integrity_check"),
                 "7\n99\n1|x\nok") == 0);
}

static void the_journal_mode_is_wal_or_kept(void) {
    fencepost_db *db;

    shell("sqlite3 keep.db \"%s\" && sqlite3 switch.db \"%s\"", TABLE, TABLE);
    ANSWERS(FENCEPOST_OK, open_with("keep.db", FENCEPOST_OPEN_KEEP_JOURNAL_MODE, &db));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    fencepost_close(db);
    ANSWERS(FENCEPOST_OK, open_with("switch.db", 0, &db));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    fencepost_close(db);
    CHECK(strcmp(sql("keep.db", "PRAGMA journal_mode"), "delete") == 0);
    CHECK(strcmp(sql("switch.db", "PRAGMA journal_mode"), "wal") == 0);
}

static void a_corrupted_page(void) {
    fencepost_db *db;
    fencepost_job *job;
    int64_t fence;
    int broken = 0;

    shell("sqlite3 jobs.db \"%s; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) "
          "INSERT INTO jobs(id) SELECT 'job ' || i FROM n\" && size=$(stat -c %%s jobs.db) && "
          "for page in $(seq 2 $((size / 4096 - 1))); do "
          "printf '\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377\\377' | dd of=jobs.db bs=1 seek=$((page * 4096)) conv=notrunc "
          "status=none; done",
          TABLE);
    char *before = snapshot();
    ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_KEEP_JOURNAL_MODE, &db));
    for (int index = 1; index < 2000; index += 97) {
        char id[32];
        snprintf(id, sizeof id, "job %d", index);
        fencepost_status status = fencepost_state(db, id, &job, &error);
        fencepost_job_free(job);
        CHECK(status == FENCEPOST_OK || status == FENCEPOST_CORRUPT);
        fencepost_status claimed = fencepost_claim(db, id, "w", 1, 1, &fence, &error);
        CHECK(claimed == FENCEPOST_CORRUPT);
        broken++;
    }
    CHECK(broken > 10 && strcmp(before, snapshot()) == 0);
    fencepost_close(db);
}

/* --- rights --- */

/* Makes the rest of the test another user's, as root could do everything. */
static void become_nobody(void) {
    if (getuid() == 0) CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
}

static void give_to_nobody(void) {
    if (getuid() == 0) shell("chown -R 65534:65534 .");
}

static void a_file_without_any_right(void) {
    shell("sqlite3 jobs.db \"%s\" && chmod 000 jobs.db", TABLE);
    give_to_nobody();
    become_nobody();
    fencepost_db *db;
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("jobs.db", 0, &db));
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &db));
}

static void a_folder_without_the_right_to_enter(void) {
    shell("mkdir closed && sqlite3 closed/jobs.db \"%s\" && chmod 000 closed", TABLE);
    give_to_nobody();
    become_nobody();
    fencepost_db *db;
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("closed/jobs.db", 0, &db));
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("closed/new.db", 0, &db));
    CHECK(chmod("closed", 0700) == 0);
}

static void a_file_that_can_only_be_read(void) {
    shell("sqlite3 jobs.db \"%s; INSERT INTO jobs(id) VALUES ('a')\" && chmod 444 jobs.db", TABLE);
    give_to_nobody();
    become_nobody();
    fencepost_db *db;
    fencepost_job *job;
    char *before = snapshot();

    ANSWERS(FENCEPOST_READ_ONLY, open_with("jobs.db", 0, &db));
    ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &db));
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "a", &job, &error));
    fencepost_job_free(job);
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_enqueue(db, "b", &error));
    fencepost_close(db);
    CHECK(strcmp(before, snapshot()) == 0);
}

static void a_folder_that_can_only_be_read(void) {
    shell("mkdir sub && sqlite3 sub/jobs.db \"%s; INSERT INTO jobs(id) VALUES ('a')\" && chmod 555 sub", TABLE);
    give_to_nobody();
    become_nobody();
    fencepost_db *db;
    fencepost_job *job;
    CHECK(chdir("sub") == 0);
    char *before = snapshot();

    ANSWERS(FENCEPOST_READ_ONLY, open_with("new.db", 0, &db));
    ANSWERS(FENCEPOST_READ_ONLY, open_with("jobs.db", 0, &db));
    ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &db));
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "a", &job, &error));
    fencepost_job_free(job);
    fencepost_close(db);
    CHECK(strcmp(before, snapshot()) == 0);
    CHECK(chmod(".", 0755) == 0);
}

static void a_read_only_handle_writes_nothing(void) {
    fencepost_db *db;
    fencepost_job *job;
    int64_t fence;
    const char *owners[] = {"w"};

    shell("sqlite3 jobs.db \"%s; INSERT INTO jobs(id) VALUES ('a')\"", TABLE);
    char *before = snapshot();
    ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &db));
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "a", &job, &error));
    fencepost_job_free(job);
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_init_db(db, &error));
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_enqueue(db, "b", &error));
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_renew(db, "a", "w", 1, 1, 1, &error));
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_complete(db, "a", "w", 1, 1, NULL, &error));
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_release(db, "a", "w", 1, &error));
    ANSWERS(FENCEPOST_READ_ONLY, fencepost_claim_many(db, "a", owners, 1, 1, 1, &fence, &error));
    fencepost_close(db);
    CHECK(strcmp(before, snapshot()) == 0);
}

static void rights_that_were_given_up_are_gone(void) {
    if (getuid() != 0) skip("only root has rights to give up");
    fencepost_db *db;
    fencepost_close(open_ready("jobs.db"));
    shell("chmod 600 jobs.db && chmod 777 .");
    /* The descriptors of before are still there, but not for a user who could not open them. */
    become_nobody();
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("jobs.db", 0, &db));
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &db));
}

/* Left behind by one who was killed, and not this user's. The database and its folder are. */
static void side_files_of_another_user(void) {
    static const struct {
        const char *name, *mode, *keep;
        fencepost_status status;
    } left[] = {
        {"jobs.db-wal", "600", "wal", FENCEPOST_CANNOT_OPEN},       {"jobs.db-wal", "644", "wal", FENCEPOST_READ_ONLY},
        {"jobs.db-shm", "600", "wal", FENCEPOST_CANNOT_OPEN},       {"jobs.db-shm", "644", "wal", FENCEPOST_READ_ONLY},
        {"jobs.db-journal", "600", "delete", FENCEPOST_CANNOT_OPEN}, {"jobs.db-fencepost", "600", "wal", FENCEPOST_CANNOT_OPEN},
    };

    if (getuid() != 0) skip("only root has files that are not the user's");
    for (size_t index = 0; index < sizeof left / sizeof *left; index++) {
        char *mode;
        pid_t child;
        int ended;

        shell("rm -rf jobs.db* && sqlite3 jobs.db \"PRAGMA journal_mode = %s; %s; INSERT INTO jobs(id) VALUES ('a')\" > /dev/null",
              left[index].keep, TABLE);
        if ((child = fork()) == 0) {
            fencepost_db *db;
            ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_KEEP_JOURNAL_MODE, &db));
            ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "b", &error));
            _exit(0);
        }
        CHECK(waitpid(child, &ended, 0) == child && ended == 0);
        shell("test -e %s || head -c 2000 /dev/zero > %s", left[index].name, left[index].name);
        shell("chown -R 65534:65534 . && chown 0:0 %s && chmod %s %s", left[index].name, left[index].mode, left[index].name);
        if ((child = fork()) == 0) {
            fencepost_db *db;
            become_nobody();
            fencepost_status status = open_with("jobs.db", FENCEPOST_OPEN_KEEP_JOURNAL_MODE, &db);
            if (status == FENCEPOST_OK) status = fencepost_enqueue(db, "c", &error);
            CHECK(asprintf(&mode, "(mode 0%s)", left[index].mode) > 0);
            if (status != left[index].status || strstr(error.message, left[index].name) == NULL ||
                strstr(error.message, "user 0 ") == NULL || strstr(error.message, mode) == NULL ||
                strstr(error.message, "do not remove it") == NULL) {
                fail(__FILE__, __LINE__, "%s %s: %s", left[index].name, left[index].mode, error.message);
            }
            _exit(0);
        }
        CHECK(waitpid(child, &ended, 0) == child && ended == 0);
    }
}

/* Its descriptor, the first of the file, cannot take write locks. */
static void a_read_only_handle_keeps_no_other_from_writing(void) {
    static const char *const modes[] = {"wal", "delete"};

    for (int index = 0; index < 2; index++) {
        fencepost_db *reader, *writer;
        fencepost_job *job;
        int64_t fence;

        shell("rm -f jobs.db* && sqlite3 jobs.db \"PRAGMA journal_mode = %s; %s\" > /dev/null", modes[index], TABLE);
        ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &reader));
        ANSWERS(FENCEPOST_NOT_FOUND, fencepost_state(reader, "a", &job, &error));
        ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_KEEP_JOURNAL_MODE, &writer));
        ANSWERS(FENCEPOST_OK, fencepost_enqueue(writer, "a", &error));
        for (int64_t round = 1; round < 20; round++) {
            ANSWERS(FENCEPOST_OK, fencepost_claim(writer, "a", "w", (double)round, 1, &fence, &error));
            ANSWERS(FENCEPOST_OK, fencepost_state(reader, "a", &job, &error));
            CHECK(fence == round && job->fence == round);
            fencepost_job_free(job);
        }
        fencepost_close(writer);
        fencepost_close(reader);
        CHECK(strcmp(sql("jobs.db", "SELECT fence FROM jobs; PRAGMA integrity_check"), "19\nok") == 0);
    }
}

/* --- a host with locks of its own --- */

static struct flock far_away(void) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)1 << 40, .l_len = 1};
}

/* Whether another process would find this one's lock. */
static bool still_locked(void) {
    int status;
    pid_t child = fork();

    if (child == 0) {
        struct flock lock = far_away();
        int fd = open("jobs.db", O_RDWR | O_CLOEXEC);
        _exit(fd < 0 || fcntl(fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status == 0;
}

/* With standard input closed, the file's descriptor would be number 0, and SQLite would close it again at once. */
static void the_hosts_locks_outlive_every_call(void) {
    struct flock lock = far_away();
    fencepost_db *db;

    shell("sqlite3 jobs.db \"%s\"", TABLE);
    int own = open("jobs.db", O_RDWR | O_CLOEXEC);
    CHECK(own > 2 && fcntl(own, F_SETLK, &lock) == 0 && still_locked());
    CHECK(close(STDIN_FILENO) == 0);
    for (int round = 0; round < 3; round++) {
        works_under("jobs.db", 1 + round);
        CHECK(still_locked());
        ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &db));
        fencepost_close(db);
        CHECK(still_locked());
        CHECK(strcmp(sql("jobs.db", "DELETE FROM jobs"), "") == 0);
    }
    CHECK(fcntl(STDIN_FILENO, F_GETFD) != -1);
}

/* --- a file that goes away while it is open --- */

static void all_fail(fencepost_db *db) {
    fencepost_job *job;
    int64_t fence;
    const char *owners[] = {"v", "w"};
    int64_t fences[2];

    ANSWERS(FENCEPOST_IO, fencepost_enqueue(db, "b", &error));
    ANSWERS(FENCEPOST_IO, fencepost_state(db, "a", &job, &error));
    CHECK(job == NULL);
    ANSWERS(FENCEPOST_IO, fencepost_claim(db, "a", "w", 100, 10, &fence, &error));
    CHECK(fence == 0);
    ANSWERS(FENCEPOST_IO, fencepost_renew(db, "a", "w", 1, 100, 10, &error));
    ANSWERS(FENCEPOST_IO, fencepost_complete(db, "a", "w", 1, 100, "r", &error));
    ANSWERS(FENCEPOST_IO, fencepost_release(db, "a", "w", 1, &error));
    ANSWERS(FENCEPOST_IO, fencepost_claim_many(db, "a", owners, 2, 100, 10, fences, &error));
    CHECK(fences[0] == 0 && fences[1] == 0);
    ANSWERS(FENCEPOST_IO, fencepost_init_db(db, &error));
    CHECK(strstr(error.message, "open it again") != NULL);
}

static fencepost_db *with_a_job(void) {
    fencepost_db *db = open_ready("jobs.db");
    fencepost_job *job;

    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "a", &job, &error));
    fencepost_job_free(job);
    return db;
}

static void deleted_while_open(void) {
    fencepost_db *db = with_a_job();

    shell("rm jobs.db jobs.db-wal jobs.db-shm");
    all_fail(db);
    fencepost_close(db);
    CHECK(access("jobs.db", F_OK) != 0 && access("jobs.db-wal", F_OK) != 0);
    works("jobs.db");
}

static void only_the_database_deleted_while_open(void) {
    fencepost_db *db = with_a_job();

    shell("rm jobs.db");
    all_fail(db);
    fencepost_close(db);
    CHECK(access("jobs.db", F_OK) != 0);
}

static void replaced_while_open(void) {
    fencepost_db *db = with_a_job();

    shell("sqlite3 new.db \"%s; INSERT INTO jobs(id, fence) VALUES ('a', 41)\" && mv new.db jobs.db && rm jobs.db-wal jobs.db-shm",
          TABLE);
    char *before = snapshot();
    all_fail(db);
    CHECK(strcmp(before, snapshot()) == 0);
    fencepost_close(db);
    CHECK(strcmp(before, snapshot()) == 0);
    CHECK(strcmp(sql("jobs.db", "SELECT fence FROM jobs"), "41") == 0);
    works("jobs.db");
}

static void moved_away_while_open_and_back(void) {
    fencepost_db *db = with_a_job();

    shell("mv jobs.db away.db");
    all_fail(db);
    shell("mv away.db jobs.db");
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "c", &error));
    fencepost_close(db);
    CHECK(strcmp(sql("jobs.db", "SELECT id FROM jobs ORDER BY id; PRAGMA integrity_check"), "a\nc\nok") == 0);
}

/* As one does who restores a copy. What comes after goes into files that nobody else sees. */
static void the_side_files_deleted_while_open(void) {
    fencepost_db *db = with_a_job();
    fencepost_job *job;
    int64_t fence;

    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 100, 10, &fence, &error));
    shell("rm jobs.db-wal jobs.db-shm");
    ANSWERS(FENCEPOST_IO, fencepost_complete(db, "a", "w", 1, 101, "r", &error));
    CHECK(strstr(error.message, "-wal") != NULL);
    /* A new connection sees what everyone sees. */
    fencepost_state(db, "a", &job, &error);
    fencepost_job_free(job);
    fencepost_close(db);
    CHECK(strcmp(sql("jobs.db", "PRAGMA integrity_check"), "ok") == 0);
}

static void the_folder_removed_while_open(void) {
    shell("mkdir sub");
    CHECK(chdir("sub") == 0);
    fencepost_db *db = with_a_job();

    CHECK(chdir("..") == 0);
    shell("rm -r sub");
    all_fail(db);
    fencepost_close(db);
}

/* --- a full disk --- */

/* A small filesystem of the test's own, gone with its process. */
static void mount_small(const char *where, const char *size) {
    if (unshare(CLONE_NEWNS) != 0) {
        uid_t user = getuid();
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) skip("it may not mount a filesystem");
        FILE *map = fopen("/proc/self/uid_map", "w");
        CHECK(map != NULL && fprintf(map, "0 %u 1", user) > 0 && fclose(map) == 0);
    }
    if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 || mount("tmpfs", where, "tmpfs", 0, size) != 0) {
        skip("it may not mount a filesystem");
    }
}

static void a_full_disk(void) {
    fencepost_job *job;
    char id[40];
    int added = 0, refusals = 0;

    CHECK(mkdir("small", 0777) == 0);
    mount_small("small", "size=600k");
    fencepost_db *db = open_ready("small/jobs.db");
    for (; refusals < 5; added++) {
        snprintf(id, sizeof id, "%030d", added);
        fencepost_status status = fencepost_enqueue(db, id, &error);
        if (status == FENCEPOST_OK && refusals == 0) continue;
        CHECK(status == FENCEPOST_FULL && strstr(error.message, "space") != NULL);
        refusals++;
        added--;
    }
    CHECK(added > 20);
    /* What was answered OK stands, and can be read while the disk is full. */
    for (int index = 0; index < added; index++) {
        snprintf(id, sizeof id, "%030d", index);
        ANSWERS(FENCEPOST_OK, fencepost_state(db, id, &job, &error));
        fencepost_job_free(job);
    }
    /* When there is space again, the handle works again. */
    CHECK(mount("none", "small", "tmpfs", MS_REMOUNT, "size=8m") == 0);
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "after", &error));
    fencepost_close(db);
    snprintf(id, sizeof id, "%d\nok", added + 1);
    CHECK(strcmp(sql("small/jobs.db", "SELECT count(*) FROM jobs; PRAGMA integrity_check"), id) == 0);
}

static void a_file_that_is_a_mount_of_its_own(void) {
    shell("mkdir 'a b' && sqlite3 jobs.db \"%s\" && touch 'a b/other.db'", TABLE);
    mount_small("a b", "size=100k");
    shell("touch 'a b/other.db'");
    CHECK(mount("jobs.db", "a b/other.db", "none", MS_BIND, "") == 0);
    refused(FENCEPOST_UNSUPPORTED, "a b/other.db");
    works("jobs.db");
}

static void descriptors_that_the_host_has_closed(void) {
    fencepost_close(open_ready("jobs.db"));
    for (int fd = 3; fd < 100; fd++) close(fd);
    shell("echo precious > mine");
    for (int fd = 3; fd < 20; fd++) CHECK(open("mine", O_RDWR | O_CLOEXEC) == fd);
    works("jobs.db");
    shell("test \"$(cat mine)\" = precious");
    for (int fd = 3; fd < 20; fd++) CHECK(fcntl(fd, F_GETFD) != -1);
}

/* So many descriptors, and no more, until it is called with RLIM_INFINITY. */
static void limit_descriptors(rlim_t count) {
    static struct rlimit all;
    struct rlimit limit;

    if (all.rlim_cur == 0) CHECK(getrlimit(RLIMIT_NOFILE, &all) == 0);
    limit = all;
    if (count != RLIM_INFINITY) limit.rlim_cur = count;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void says_that_no_descriptor_is_left(const char *limit) {
    CHECK(strstr(error.message, "no file descriptor left") != NULL && strstr(error.message, "RLIMIT_NOFILE") != NULL);
    CHECK(strstr(error.message, limit) != NULL);
}

static void no_descriptor_free_at_the_first_open(void) {
    fencepost_db *db;

    limit_descriptors(3);
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("jobs.db", 0, &db));
    says_that_no_descriptor_is_left(" 3 ");
    limit_descriptors(RLIM_INFINITY);
    works("jobs.db");
    limit_descriptors(3);
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("other.db", 0, &db));
    says_that_no_descriptor_is_left(" 3 ");
    limit_descriptors(RLIM_INFINITY);
}

/* Whichever call and whichever file it is. In a process of its own, which has no descriptors from before. */
static int with_descriptors(int count, uint32_t flags, bool at_open) {
    int ended;
    pid_t child = fork();

    if (child == 0) {
        char limit[16];
        fencepost_db *db;
        fencepost_job *job;

        snprintf(limit, sizeof limit, " %d ", count);
        if (at_open) limit_descriptors((rlim_t)count);
        fencepost_status status = open_with("jobs.db", flags, &db);
        limit_descriptors((rlim_t)count);
        if (status == FENCEPOST_OK) status = fencepost_state(db, "a", &job, &error);
        if (status == FENCEPOST_OK && flags == 0) status = fencepost_release(db, "a", "w", 1, &error);
        if (status >= 0) _exit(0);
        if (status != FENCEPOST_CANNOT_OPEN) fail(__FILE__, __LINE__, "with %d: %s", count, error.message);
        says_that_no_descriptor_is_left(limit);
        _exit(2);
    }
    CHECK(waitpid(child, &ended, 0) == child && WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

static void no_descriptor_free_later(void) {
    shell("sqlite3 jobs.db \"PRAGMA journal_mode = wal; %s; INSERT INTO jobs(id) VALUES ('a')\" > /dev/null", TABLE);
    fencepost_close(open_ready("jobs.db"));
    for (int which = 0; which < 4; which++) {
        int refusals = 0;

        for (int count = 3; count < 40; count++) {
            int answer = with_descriptors(count, which & 1 ? FENCEPOST_OPEN_READ_ONLY : 0, which & 2);
            CHECK(answer == 0 || (answer == 2 && count < 30));
            refusals += answer == 2;
        }
        CHECK(refusals > 0);
    }
}

/* Filled by someone else to the last byte, so that nothing at all can be made. */
static void a_disk_that_was_full_before(void) {
    fencepost_db *db;
    fencepost_job *job;
    int64_t fence;

    CHECK(mkdir("small", 0777) == 0);
    mount_small("small", "size=200k");
    shell("sqlite3 small/jobs.db \"%s; INSERT INTO jobs(id) VALUES ('a')\"", TABLE);
    shell("cat /dev/zero > small/filler 2> /dev/null || true");
    fencepost_status status = open_with("small/jobs.db", 0, &db);
    if (status == FENCEPOST_OK) {
        ANSWERS(FENCEPOST_FULL, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    } else {
        CHECK(status == FENCEPOST_FULL);
    }
    shell("rm small/filler");
    if (db == NULL) ANSWERS(FENCEPOST_OK, open_with("small/jobs.db", 0, &db));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 1, 1, &fence, &error));
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "a", &job, &error));
    CHECK(job->fence == 1);
    fencepost_job_free(job);
    fencepost_close(db);
}

/* --- network filesystems --- */

/* This program's statfs64 stands in for the C library's, and says what the test wants to hear. */
static long pretended_type;

int statfs64(const char *path, struct statfs64 *status);
int statfs64(const char *path, struct statfs64 *status) {
    long answer = syscall(SYS_statfs, path, status);

    if (answer == 0 && pretended_type != 0) status->f_type = pretended_type;
    return (int)answer;
}

static void network_filesystems_are_refused_by_name(void) {
    static const struct {
        long type;
        const char *name;
    } remote[] = {
        {0x6969, "NFS"},     {0x517b, "SMB"},         {0xff534d42, "CIFS"},  {0xfe534d42, "SMB2"},
        {0x01021997, "9p"},  {0x65735546, "FUSE"},    {0x5346414f, "AFS"},   {0x00c36400, "Ceph"},
        {0x73757245, "Coda"}, {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},  {0x01161970, "GFS2"},
    };
    fencepost_db *db;

    works("jobs.db");
    for (size_t index = 0; index < sizeof remote / sizeof *remote; index++) {
        char *before = snapshot();

        pretended_type = remote[index].type;
        ANSWERS(FENCEPOST_UNSUPPORTED, open_with("jobs.db", 0, &db));
        CHECK(strstr(error.message, remote[index].name) != NULL);
        ANSWERS(FENCEPOST_UNSUPPORTED, open_with("new.db", 0, &db));
        CHECK(strcmp(before, snapshot()) == 0);
        ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM, &db));
        fencepost_close(db);
    }
}

static void local_filesystems_are_used(void) {
    static const long local[] = {0xef53 /* ext4 */, 0x58465342 /* XFS */, 0x9123683e /* btrfs */, 0x01021994 /* tmpfs */,
                                 0x794c7630 /* overlayfs */, 0x2fc12fc1 /* ZFS */, 0xf2f52010 /* F2FS */};
    fencepost_db *db;

    for (size_t index = 0; index < sizeof local / sizeof *local; index++) {
        pretended_type = local[index];
        ANSWERS(FENCEPOST_OK, open_with("jobs.db", 0, &db));
        fencepost_close(db);
    }
}

/* --- readers without rights --- */

static off_t size_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? status.st_size : -1;
}

static void reads(const char *path) {
    fencepost_db *db;
    fencepost_job *job;
    uint64_t count;

    ANSWERS(FENCEPOST_OK, open_with(path, FENCEPOST_OPEN_READ_ONLY, &db));
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "a", &job, &error));
    CHECK(job->fence == 1);
    fencepost_job_free(job);
    ANSWERS(FENCEPOST_OK, fencepost_count(db, FENCEPOST_CONDITION_HELD, 105, &count, &error));
    CHECK(count == 1);
    fencepost_close(db);
}

/* Opening answers so, and says that the side files are missing. */
static void lacks_side_files(fencepost_status status, const char *why) {
    fencepost_db *db;

    CHECK(access("jobs.db-wal", F_OK) != 0 && access("jobs.db-shm", F_OK) != 0);
    ANSWERS(status, open_with("jobs.db", FENCEPOST_OPEN_READ_ONLY, &db));
    if (strstr(error.message, why) == NULL || strstr(error.message, "-wal and -shm") == NULL) {
        fail(__FILE__, __LINE__, "%s", error.message);
    }
}

/* In a process of its own, of a user who may write neither the file nor the folder. */
static void as_nobody(void (*look)(void)) {
    int ended;
    pid_t child = fork();

    if (child == 0) {
        become_nobody();
        look();
        exit(0);
    }
    CHECK(waitpid(child, &ended, 0) == child && ended == 0);
}

static void nobody_reads(void) { reads("jobs.db"); }
static void nobody_lacks_them(void) { lacks_side_files(FENCEPOST_CANNOT_OPEN, "may not make them in the folder"); }

static void a_reader_without_rights(void) {
    int64_t fence;

    if (getuid() != 0) skip("only root has files that are not the user's");
    umask(022);
    fencepost_db *db = open_ready("jobs.db");
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 100, 10, &fence, &error));
    as_nobody(nobody_reads);
    /* The last one that closes it leaves the side files, and nothing in the log. (A fork closes it in its own way.) */
    ANSWERS(FENCEPOST_EXISTS, fencepost_enqueue(db, "a", &error));
    fencepost_close(db);
    CHECK(size_of("jobs.db-wal") == 0 && size_of("jobs.db-shm") > 0);
    as_nobody(nobody_reads);
    reads("jobs.db");
    CHECK(size_of("jobs.db-wal") == 0 && size_of("jobs.db-shm") > 0);
    as_nobody(nobody_reads);
    /* Another program removes them. */
    CHECK(strcmp(sql("jobs.db", "SELECT count(*) FROM jobs"), "1") == 0);
    as_nobody(nobody_lacks_them);
}

static void a_filesystem_that_can_only_be_read(void) {
    fencepost_db *db;
    int64_t fence;

    CHECK(mkdir("small", 0777) == 0);
    mount_small("small", "size=1m");
    CHECK(chdir("small") == 0);
    db = open_ready("jobs.db");
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "a", &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "a", "w", 100, 10, &fence, &error));
    fencepost_close(db);
    /* The descriptors that are kept can write, which the system does not allow then. */
    for (int fd = 3; fd < 20; fd++) close(fd);
    CHECK(mount("none", ".", "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m") == 0 || chdir("/") != 0);
    reads("jobs.db");
    ANSWERS(FENCEPOST_READ_ONLY, open_with("jobs.db", 0, &db));
    CHECK(strstr(error.message, "mounted") != NULL);
    for (int fd = 3; fd < 20; fd++) close(fd);
    CHECK(mount("none", ".", "tmpfs", MS_REMOUNT, "size=1m") == 0);
    CHECK(strcmp(sql("jobs.db", "SELECT count(*) FROM jobs"), "1") == 0);
    CHECK(mount("none", ".", "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m") == 0);
    lacks_side_files(FENCEPOST_CANNOT_OPEN, "mounted");
}

/* --- sandboxes --- */

/* From now on the system refuses this process and its children a call; with `length`, only for so many bytes, as mmap(2)
 * has them in its second argument. */
static void refuse(long call, int with, uint32_t length) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, length ? offsetof(struct seccomp_data, args[1]) : offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, length ? length : (uint32_t)call, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, length ? offsetof(struct seccomp_data, args[3]) : offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, length ? MAP_SHARED : (uint32_t)call, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)with),
    };
    struct sock_fprog program = {.len = sizeof steps / sizeof *steps, .filter = steps};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) skip("it may not make a sandbox");
}

/* One of before statx(2) and its like answers as if the call were forbidden, or unknown. */
static void old_sandboxes(void) {
    static const long newer[] = {SYS_statx, SYS_memfd_create, SYS_fallocate, SYS_faccessat2};
    static const int answers[] = {EPERM, ENOSYS};

    for (size_t index = 0; index < sizeof answers / sizeof *answers; index++) {
        int ended;
        pid_t child = fork();

        if (child == 0) {
            fencepost_db *db;

            for (size_t call = 0; call < sizeof newer / sizeof *newer; call++) refuse(newer[call], answers[index], 0);
            works("jobs.db");
            struct stat page;
            CHECK(stat("jobs.db-fencepost", &page) == 0 && page.st_size == 4096 && page.st_blocks > 0);
            /* Descriptors that were kept are used again. */
            int free = dup(STDOUT_FILENO);
            for (int round = 0; round < 5; round++) {
                ANSWERS(FENCEPOST_OK, open_with("jobs.db", 0, &db));
                ANSWERS(FENCEPOST_NOT_FOUND, fencepost_release(db, "none", "w", 1, &error));
                fencepost_close(db);
            }
            CHECK(dup(STDOUT_FILENO) <= free + 3);
            exit(0);
        }
        CHECK(waitpid(child, &ended, 0) == child && ended == 0);
        shell("rm jobs.db*");
    }
}

static void calls_that_cannot_be_done_without_are_named(void) {
    fencepost_db *db = open_ready("other.db");

    fencepost_close(db);
    refuse(SYS_mmap, EPERM, 4096);
    ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_KEEP_JOURNAL_MODE, &db));
    ANSWERS(FENCEPOST_CANNOT_OPEN, fencepost_init_db(db, &error));
    CHECK(strncmp(error.message, "mmap of its side file -fencepost: ", 34) == 0 && strstr(error.message, "seccomp") != NULL);
    fencepost_close(db);
    refuse(SYS_statfs, EPERM, 0);
    ANSWERS(FENCEPOST_CANNOT_OPEN, open_with("jobs.db", 0, &db));
    CHECK(strncmp(error.message, "statfs", 6) == 0 && strstr(error.message, "ALLOW_NETWORK_FILESYSTEM") != NULL);
    ANSWERS(FENCEPOST_OK, open_with("jobs.db", FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM, &db));
    fencepost_close(db);
}

int main(int count, char **arguments) {
    static const struct test tests[] = {
        {"names that are no file", names_that_are_no_file},
        {"directories, and what is not there", directories_and_what_is_not_there},
        {"names that are too long", names_that_are_too_long},
        {"paths that are too long", paths_that_are_too_long},
        {"what is no regular file", what_is_no_regular_file},
        {"a missing file is made unless it must exist", a_missing_file_is_made_unless_it_must_exist},
        {"symbolic links are followed", symbolic_links_are_followed},
        {"one file by several paths is one file", one_file_by_several_paths_is_one_file},
        {"several hard links are refused", several_hard_links_are_refused},
        {"the current folder may change", the_current_folder_may_change},
        {"what is no database", what_is_no_database},
        {"an empty file is an empty database", an_empty_file_is_an_empty_database},
        {"tables of another shape", tables_of_another_shape},
        {"a table made by plain SQL is ours", a_table_made_by_plain_sql_is_ours},
        {"added columns are left alone", added_columns_are_left_alone},
        {"another application's database gets the table and nothing else",
         a_database_of_another_application_gets_the_table_and_nothing_else},
        {"the journal mode is WAL, or kept", the_journal_mode_is_wal_or_kept},
        {"a corrupted page", a_corrupted_page},
        {"a file without any right", a_file_without_any_right},
        {"a folder without the right to enter", a_folder_without_the_right_to_enter},
        {"a file that can only be read", a_file_that_can_only_be_read},
        {"a folder that can only be read", a_folder_that_can_only_be_read},
        {"a read-only handle writes nothing", a_read_only_handle_writes_nothing},
        {"rights that were given up are gone", rights_that_were_given_up_are_gone},
        {"side files of another user", side_files_of_another_user},
        {"a read-only handle keeps no other from writing", a_read_only_handle_keeps_no_other_from_writing},
        {"the host's locks outlive every call", the_hosts_locks_outlive_every_call},
        {"deleted while open", deleted_while_open},
        {"only the database deleted while open", only_the_database_deleted_while_open},
        {"replaced while open", replaced_while_open},
        {"moved away while open, and back", moved_away_while_open_and_back},
        {"the side files deleted while open", the_side_files_deleted_while_open},
        {"the folder removed while open", the_folder_removed_while_open},
        {"a file that is a mount of its own", a_file_that_is_a_mount_of_its_own},
        {"descriptors that the host has closed", descriptors_that_the_host_has_closed},
        {"no descriptor free at the first open", no_descriptor_free_at_the_first_open},
        {"no descriptor free later", no_descriptor_free_later},
        {"a full disk", a_full_disk},
        {"a disk that was full before", a_disk_that_was_full_before},
        {"network filesystems are refused by name", network_filesystems_are_refused_by_name},
        {"local filesystems are used", local_filesystems_are_used},
        {"a reader without rights", a_reader_without_rights},
        {"a filesystem that can only be read", a_filesystem_that_can_only_be_read},
        {"large: old sandboxes", old_sandboxes},
        {"large: calls that cannot be done without are named", calls_that_cannot_be_done_without_are_named},
        {NULL, NULL},
    };
    return run_tests(count, arguments, tests);
}

/*
 * The floor: the loads of load.c as a bare C program would do them, with prepared statements, on the very SQLite that the
 * library has in it. Every worker has a connection of its own, and SQLite's busy handler to wait with: one worker is
 * the floor that the library is measured against, several are what a program without the library would have.
 *
 * Each operation has the rule of the library's in its WHERE clause, is one BEGIN IMMEDIATE, and is synced alike. What
 * only the library does is left out: it explains no refusal, and looks at no types and no schema.
 *
 * Two more measure no SQLite: `fill FILE CLAIMABLE HELD` replaces the rows of a table that `load init` has made, and
 * `sync FILE` prints how long the disk takes to sync one overwritten page, and which SQLite this is.
 */
#include "bench.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

/* A lease of this length outlives any run. */
#define LONG 1e9

/* The bundled SQLite is built to sync with fsync, which also writes the file's times. The library syncs what its callers
 * wait for with fdatasync, so the floor, which the linker sends here, may not do worse. */
int __wrap_fsync(int file);
int __wrap_fsync(int file) { return fdatasync(file); }

enum statement {
    BEGIN,
    COMMIT,
    CLAIM,
    RENEW,
    COMPLETE,
    ENQUEUE,
    CLAIM_NEXT,
    CLAIM_OVER,
    CLAIM_WAITING,
    STATEMENTS,
};

/* The order of claim_next: leases that ran out and delays that are over, the longest over first; then by age. */
#define OVER "SELECT _rowid_ FROM jobs WHERE done = 0 AND until > 0 AND until <= ?1 ORDER BY until, _rowid_ LIMIT "
#define WAITING "SELECT _rowid_ FROM jobs WHERE done = 0 AND until <= min(0, ?1) ORDER BY until, _rowid_ LIMIT "
#define TAKE "UPDATE jobs SET owner = ?2, until = ?3, fence = fence + 1 WHERE _rowid_ "

static const char *const SQL[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [CLAIM] = "UPDATE jobs SET owner = ?2, until = ?4, fence = fence + 1 WHERE id = ?1 AND done = 0 AND until <= ?3 "
              "RETURNING fence",
    [RENEW] = "UPDATE jobs SET until = ?5 WHERE id = ?1 AND done = 0 AND owner = ?2 AND fence = ?3 AND until > ?4",
    [COMPLETE] = "UPDATE jobs SET result = ?5, done = 1 "
                 "WHERE id = ?1 AND done = 0 AND owner = ?2 AND fence = ?3 AND until > ?4",
    [ENQUEUE] = "INSERT INTO jobs(id) VALUES (?1) ON CONFLICT DO NOTHING",
    [CLAIM_NEXT] = TAKE "= coalesce((" OVER "1), (" WAITING "1)) RETURNING id, fence",
    [CLAIM_OVER] = TAKE "IN (" OVER "?4) RETURNING id, fence",
    [CLAIM_WAITING] = TAKE "IN (" WAITING "?4) RETURNING id, fence",
};

struct connection {
    sqlite3 *sql;
    sqlite3_stmt *statements[STATEMENTS];
    /* The job that the worker holds. */
    char id[64];
    int64_t fence;
};

static void check(sqlite3 *sql, const char *what, int code) {
    if (code != SQLITE_OK) stop("%s: %s", what, sqlite3_errmsg(sql));
}

static sqlite3 *open_file(const char *file, bool normal) {
    sqlite3 *sql;

    if (sqlite3_open_v2(file, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        stop("%s cannot be opened", file);
    check(sql, "busy_timeout", sqlite3_busy_timeout(sql, 60000));
    check(sql, "synchronous", sqlite3_exec(sql, normal ? "PRAGMA synchronous = NORMAL" : "PRAGMA synchronous = FULL", NULL, NULL, NULL));
    return sql;
}

static void *begin_process(const struct config *config, const char *load) {
    (void)config;
    (void)load;
    return NULL;
}

static void end_process(void *process) { (void)process; }

static void *begin(struct worker *worker) {
    struct connection *connection = allocate(sizeof *connection);

    connection->sql = open_file(worker->config->file, worker->config->normal);
    for (int i = 0; i < STATEMENTS; i++)
        check(connection->sql, SQL[i], sqlite3_prepare_v3(connection->sql, SQL[i], -1, SQLITE_PREPARE_PERSISTENT, &connection->statements[i], NULL));
    return connection;
}

static void end(struct worker *worker) {
    struct connection *connection = worker->own;

    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(connection->statements[i]);
    sqlite3_close(connection->sql);
    free(connection);
}

/* --- the operations --- */

static sqlite3_stmt *statement(const struct connection *connection, enum statement which) {
    return connection->statements[which];
}

static void text(sqlite3_stmt *of, int place, const char *value) {
    sqlite3_bind_text(of, place, value, -1, SQLITE_STATIC);
}

/* Runs a statement that answers nothing. */
static void run(const struct connection *connection, enum statement which) {
    sqlite3_stmt *it = statement(connection, which);

    if (sqlite3_step(it) != SQLITE_DONE) stop("%s: %s", SQL[which], sqlite3_errmsg(connection->sql));
    sqlite3_reset(it);
}

static void run_on_one_row(const struct connection *connection, enum statement which) {
    run(connection, which);
    if (sqlite3_changes(connection->sql) != 1) stop("%s: refused", SQL[which]);
}

static void claim(struct connection *connection, const char *id, const char *owner, double now, double ttl) {
    sqlite3_stmt *it = statement(connection, CLAIM);

    text(it, 1, id);
    text(it, 2, owner);
    sqlite3_bind_double(it, 3, now);
    sqlite3_bind_double(it, 4, now + ttl);
    if (sqlite3_step(it) != SQLITE_ROW) stop("claim: refused");
    connection->fence = sqlite3_column_int64(it, 0);
    sqlite3_reset(it);
}

static void renew(const struct connection *connection, const char *id, const char *owner, double now, double ttl) {
    sqlite3_stmt *it = statement(connection, RENEW);

    text(it, 1, id);
    text(it, 2, owner);
    sqlite3_bind_int64(it, 3, connection->fence);
    sqlite3_bind_double(it, 4, now);
    sqlite3_bind_double(it, 5, now + ttl);
    run_on_one_row(connection, RENEW);
}

static void complete(const struct connection *connection, const char *owner) {
    sqlite3_stmt *it = statement(connection, COMPLETE);

    text(it, 1, connection->id);
    text(it, 2, owner);
    sqlite3_bind_int64(it, 3, connection->fence);
    sqlite3_bind_double(it, 4, 2);
    text(it, 5, "done");
    run_on_one_row(connection, COMPLETE);
}

static void bind_take(sqlite3_stmt *it, const char *owner) {
    sqlite3_bind_double(it, 1, 1);
    text(it, 2, owner);
    sqlite3_bind_double(it, 3, 1 + LONG);
}

static void claim_next(struct connection *connection, const char *owner) {
    sqlite3_stmt *it = statement(connection, CLAIM_NEXT);

    bind_take(it, owner);
    if (sqlite3_step(it) != SQLITE_ROW) stop("claim_next: the table is empty");
    snprintf(connection->id, sizeof connection->id, "%s", (const char *)sqlite3_column_text(it, 0));
    connection->fence = sqlite3_column_int64(it, 1);
    sqlite3_reset(it);
}

static int claim_some(const struct connection *connection, enum statement which, const char *owner, int max,
                      char (*ids)[64], int64_t *fences) {
    sqlite3_stmt *it = statement(connection, which);
    int count = 0;

    bind_take(it, owner);
    sqlite3_bind_int(it, 4, max);
    while (sqlite3_step(it) == SQLITE_ROW) {
        snprintf(ids[count], sizeof ids[count], "%s", (const char *)sqlite3_column_text(it, 0));
        fences[count++] = sqlite3_column_int64(it, 1);
    }
    check(connection->sql, SQL[which], sqlite3_reset(it));
    return count;
}

static void enqueue(const struct connection *connection, const char *id) {
    text(statement(connection, ENQUEUE), 1, id);
    run_on_one_row(connection, ENQUEUE);
}

/* --- the loads --- */

static int step_write(struct worker *worker) {
    struct connection *connection = worker->own;
    int64_t round = worker->steps / 2 % (JOBS / worker->count);
    double now = (double)worker->steps;
    char id[32];

    job_id(id, worker->number + round * worker->count);
    run(connection, BEGIN);
    if (worker->steps % 2 == 0) claim(connection, id, worker->name, now, 1.5);
    else renew(connection, id, worker->name, now, 1.5);
    run(connection, COMMIT);
    return 1;
}

static void next_in_a_transaction(const struct worker *worker) {
    struct connection *connection = worker->own;

    run(connection, BEGIN);
    claim_next(connection, worker->name);
    run(connection, COMMIT);
}

static void complete_in_a_transaction(const struct worker *worker) {
    const struct connection *connection = worker->own;

    run(connection, BEGIN);
    complete(connection, worker->name);
    run(connection, COMMIT);
}

static int step_cycle(struct worker *worker) {
    next_in_a_transaction(worker);
    complete_in_a_transaction(worker);
    return 1;
}

static int step_next(struct worker *worker) {
    const struct connection *connection = worker->own;
    char id[64];
    int64_t begun = nanoseconds();

    next_in_a_transaction(worker);
    worker->timed = nanoseconds() - begun;
    complete_in_a_transaction(worker);
    snprintf(id, sizeof id, "%lld-%d-%lld", (long long)begun, worker->number, (long long)worker->steps);
    run(connection, BEGIN);
    enqueue(connection, id);
    run(connection, COMMIT);
    return 1;
}

static void *begin_chain(struct worker *worker) {
    worker->own = begin(worker);
    next_in_a_transaction(worker);
    return worker->own;
}

static int step_chain(struct worker *worker) {
    struct connection *connection = worker->own;

    run(connection, BEGIN);
    complete(connection, worker->name);
    claim_next(connection, worker->name);
    run(connection, COMMIT);
    return 1;
}

static int step_enqueue_many(struct worker *worker) {
    const struct connection *connection = worker->own;
    char id[32];

    run(connection, BEGIN);
    for (int i = 0; i < BATCH; i++) {
        snprintf(id, sizeof id, "new-%d-%lld", worker->number, (long long)(worker->steps * BATCH + i));
        enqueue(connection, id);
    }
    run(connection, COMMIT);
    return BATCH;
}

static int step_claim_batch(struct worker *worker) {
    const struct connection *connection = worker->own;
    char ids[BATCH][64];
    int64_t fences[BATCH];

    run(connection, BEGIN);
    int count = claim_some(connection, CLAIM_OVER, worker->name, BATCH, ids, fences);
    if (count < BATCH)
        count += claim_some(connection, CLAIM_WAITING, worker->name, BATCH - count, ids + count, fences + count);
    run(connection, COMMIT);
    if (count != BATCH) stop("claim_batch: the table is empty");
    return count;
}

/* --- what measures no SQLite --- */

static void execute(sqlite3 *sql, const char *what) { check(sql, what, sqlite3_exec(sql, what, NULL, NULL, NULL)); }

/* The ids are in no order, as those of most programs: 2654435761 is odd, so that none comes twice. */
static void fill(const char *file, const char *claimable, const char *held) {
    sqlite3 *sql = open_file(file, true);
    char *insert = sqlite3_mprintf(
        "INSERT INTO jobs(id, owner, until, fence) "
        "WITH RECURSIVE counter(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counter WHERE n < %lld + %lld) "
        "SELECT printf('%%08x', n * 2654435761 %% 4294967296), iif(n > %lld, 'other', NULL), iif(n > %lld, 1e12 + n, 0), n > %lld "
        "FROM counter",
        atoll(claimable), atoll(held), atoll(claimable), atoll(claimable), atoll(claimable));

    execute(sql, "PRAGMA journal_mode = OFF");
    execute(sql, "PRAGMA synchronous = OFF");
    execute(sql, "PRAGMA cache_size = -1500000");
    execute(sql, "DELETE FROM jobs");
    if (atoll(claimable) + atoll(held) > 0) execute(sql, insert);
    execute(sql, "PRAGMA journal_mode = WAL");
    sqlite3_free(insert);
    sqlite3_close(sql);
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void print_sync_time(const char *file) {
    enum { SIZE = 4096, PAGES = 256, SYNCS = 300 };
    static char page[SIZE];
    static int64_t times[SYNCS];
    int descriptor = open(file, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (descriptor < 0) stop("%s cannot be made", file);
    for (int i = 0; i < PAGES; i++) {
        if (pwrite(descriptor, page, SIZE, (off_t)i * SIZE) != SIZE) stop("%s cannot be written", file);
    }
    fsync(descriptor);
    for (int i = 0; i < SYNCS; i++) {
        int64_t begun = nanoseconds();
        if (pwrite(descriptor, page, SIZE, (off_t)(i % PAGES) * SIZE) != SIZE || fdatasync(descriptor) != 0)
            stop("%s cannot be written", file);
        times[i] = nanoseconds() - begun;
    }
    close(descriptor);
    unlink(file);
    qsort(times, SYNCS, sizeof *times, by_size);
    printf("p50_us=%.1f p99_us=%.1f sqlite=%d\n", (double)times[SYNCS / 2] / 1e3, (double)times[SYNCS * 99 / 100] / 1e3,
           sqlite3_libversion_number());
}

static const struct load LOADS[] = {
    {"write", begin, step_write, end},
    {"cycle", begin, step_cycle, end},
    {"chain", begin_chain, step_chain, end},
    {"next", begin, step_next, end},
    {"enqueue-many", begin, step_enqueue_many, end},
    {"claim-batch", begin, step_claim_batch, end},
    {0},
};

int main(int count, char **arguments) {
    static const struct program PROGRAM = {LOADS, begin_process, end_process};

    if (count == 5 && strcmp(arguments[1], "fill") == 0) {
        fill(arguments[2], arguments[3], arguments[4]);
        return 0;
    }
    if (count == 3 && strcmp(arguments[1], "sync") == 0) {
        print_sync_time(arguments[2]);
        return 0;
    }
    return bench_main(count, arguments, &PROGRAM);
}

/*
 * fencepost: ownership leases with rising fencing tokens in one SQLite file.
 *
 * Made from src/abi by `make header`; do not edit.
 *
 * THE CONTRACT IN SHORT
 *
 * Names      All begin with fencepost_ or FENCEPOST_.
 * Answers    A function that can fail answers a fencepost_status: 0 is OK; above 0 the lease's rules refused
 *            it and nothing was changed; below 0 is an error. Refused to renew, complete or release: the lease is
 *            lost, stop. An error may be transient. Later versions may add numbers: go by the sign.
 * Errors     The last parameter of such a function is a fencepost_error of the caller's, or NULL. It is
 *            written by every call. There is no "last error" to ask for.
 * Results    Out-parameters come just before it. They are written on OK, and set to NULL or 0 otherwise.
 * Strings    NUL-terminated UTF-8, at most FENCEPOST_MAX_TEXT bytes, borrowed for the call only. NULL only
 *            where it is said. The empty string is a valid id, owner and result.
 * Ownership  What fencepost_open gives is ended by fencepost_close; a fencepost_job, fencepost_jobs,
 *            fencepost_grant or fencepost_grants is freed by the function of its name with _free. All take
 *            NULL. Nothing else is allocated for the caller.
 * Times      Seconds as doubles, by any clock of the caller's that does not go back and that all callers of
 *            a file share. It should count from 0 upwards: a job that nobody holds and nobody has delayed can be
 *            claimed from 0 on, and no sooner. Safety rests on fences; clocks decide only when a lease may change
 *            hands.
 * Fences     Rise with every grant of a job, and each is granted once: over release, removal, restart and power cut.
 *            They need not be dense. Every fence is above a floor of the file, which rises when a row or its id goes,
 *            whichever program takes it away (by triggers that fencepost_init_db makes). A file that was set back is
 *            noticed by PATH-fencepost, which remembers the newest grant (of an id of up to 928 bytes). What neither
 *            sees asks for fencepost_raise_floor: a file restored to another place, or together with its
 *            PATH-fencepost; a row that REPLACE removes for another key than its id; a fence that a program sets
 *            back itself.
 * Durable    OK means synced to the disk, unless FENCEPOST_DURABILITY_NORMAL was asked for.
 * Files      Beside the database at PATH stand SQLite's PATH-wal and PATH-shm, and PATH-fencepost, a page that
 *            the processes share. Never remove or replace one of them while a program has the file open. They
 *            stay there when it is closed, for readers who may not make them; PATH-wal is empty then.
 * Threads    Any number of threads may use one handle at once; what they ask for at the same time is stored
 *            together. Closing a handle while a call runs is an error of the caller's that the library cannot
 *            see. No function may be called by a signal handler, and no thread may be cancelled
 *            (pthread_cancel) during a call. Now and then the library starts a thread of its own, for a
 *            moment, with all signals blocked.
 * Processes  Any number, in any language. After fork() a handle works on in the parent and in the child,
 *            but not in a child that was made by a bare clone(2) or a signal handler's fork (UNSUPPORTED).
 * Host       Another copy of SQLite in the same process may use the same file at the same time. While the
 *            file exists, its descriptors stay open after fencepost_close, and are used again: closing one
 *            would drop the locks of that other copy (see fcntl_locking(2)).
 * Panics     None crosses the boundary: a fault of the library is answered as INTERNAL. Nothing is printed.
 *            Only a failed allocation outside SQLite ends the process, as Rust has it.
 * Changes    Status numbers and layouts never change meaning. Structs of the caller's that grow begin with
 *            their size; structs of the library's grow at the end. While FENCEPOST_VERSION_MAJOR is 0,
 *            another minor version may be another ABI.
 */


#ifndef FENCEPOST_H
#define FENCEPOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The longest id, owner or result, in bytes without the NUL: 16 MiB. (A path: see fencepost_open.) */
#define FENCEPOST_MAX_TEXT 16777216

/** The version in one number, for comparing: 0x00MMmmpp. */
#define FENCEPOST_VERSION_NUMBER \
    ((FENCEPOST_VERSION_MAJOR << 16) | (FENCEPOST_VERSION_MINOR << 8) | FENCEPOST_VERSION_PATCH)

#define FENCEPOST_STRINGIFY_(x) #x
#define FENCEPOST_STRINGIFY(x) FENCEPOST_STRINGIFY_(x)
/** The version as fencepost_version() of the same release gives it. */
#define FENCEPOST_VERSION \
    FENCEPOST_STRINGIFY(FENCEPOST_VERSION_MAJOR) \
    "." FENCEPOST_STRINGIFY(FENCEPOST_VERSION_MINOR) "." FENCEPOST_STRINGIFY(FENCEPOST_VERSION_PATCH)


/**
 * Major version: 0 until the ABI is declared stable.
 */
#define FENCEPOST_VERSION_MAJOR 0

/**
 * Minor version: while MAJOR is 0, another MINOR may be another ABI.
 */
#define FENCEPOST_VERSION_MINOR 1

/**
 * Patch version.
 */
#define FENCEPOST_VERSION_PATCH 0

/**
 * fencepost_options.durability: every OK answer is synced to the disk before it is given (the default).
 */
#define FENCEPOST_DURABILITY_FULL 0

/**
 * fencepost_options.durability: a power cut (not a crash of the process) may undo the newest answers, and so
 * hand out a fence a second time. For leases whose fences are checked nowhere outside this file.
 */
#define FENCEPOST_DURABILITY_NORMAL 1

/**
 * fencepost_options.flags: fail with CANNOT_OPEN when the file is missing, instead of making it.
 */
#define FENCEPOST_OPEN_EXISTING 1

/**
 * fencepost_options.flags: for fencepost_state, fencepost_count and fencepost_list; everything that writes answers
 * READ_ONLY. The file must exist. It may be another user's, in a folder that cannot be written or on a filesystem
 * that is mounted to be read only, as long as PATH-wal and PATH-shm are there and can be read: fencepost leaves
 * them there. (<https://www.sqlite.org/wal.html#read_only_databases>)
 */
#define FENCEPOST_OPEN_READ_ONLY 2

/**
 * fencepost_options.flags: leave the file's journal mode as it is instead of switching it to WAL.
 */
#define FENCEPOST_OPEN_KEEP_JOURNAL_MODE 4

/**
 * fencepost_options.flags: open the file although its filesystem is a network's. Locks there are the
 * server's affair, and SQLite's WAL does not work between machines at all.
 */
#define FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM 8

/**
 * condition: anyone can claim the job (not complete, and until <= now): what fencepost_claim_next would grant.
 */
#define FENCEPOST_CONDITION_CLAIMABLE 1

/**
 * condition: a lease on the job is running (not complete, until > now, with an owner).
 */
#define FENCEPOST_CONDITION_HELD 2

/**
 * condition: nobody holds the job, and it is not to be claimed: not yet (not complete, until > now, no owner), or never
 * again (not complete, until <= now, and its fence is INT64_MAX; see FENCEPOST_FENCE_EXHAUSTED).
 */
#define FENCEPOST_CONDITION_DELAYED 3

/**
 * condition: the job is complete.
 */
#define FENCEPOST_CONDITION_DONE 4

/**
 * condition: no job, but a row that no correct program writes: its id is no text, until no real number, fence no
 * integer from 0 on, done neither 0 nor 1, or owner or result neither text nor NULL; a text is UTF-8 without a NUL
 * in it. fencepost_claim_next passes such a row by, and fencepost_state answers CORRUPT and says what is wrong.
 */
#define FENCEPOST_CONDITION_BROKEN 5

/**
 * What a call answers: 0 is OK; above 0 it was refused by the lease's rules and nothing was changed; below
 * 0 is an error. Later versions may add numbers: treat an unknown one by its sign.
 */
enum fencepost_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  /**
   * Done as asked. At the default durability it outlives a power cut.
   */
  FENCEPOST_OK = 0,
  /**
   * Refused: there is a job of this id already; it was left as it is.
   */
  FENCEPOST_EXISTS = 1,
  /**
   * Refused: there is no job of this id, or none at all that can be claimed.
   */
  FENCEPOST_NOT_FOUND = 2,
  /**
   * Refused: another lease on the job has not run out yet, or it is not to be claimed yet.
   */
  FENCEPOST_HELD = 3,
  /**
   * Refused: the job is complete.
   */
  FENCEPOST_DONE = 4,
  /**
   * Refused: this owner and fence do not hold the job (any more). Stop working on it.
   */
  FENCEPOST_STALE = 5,
  /**
   * Refused: owner and fence are the current ones, and the lease is over (now >= until).
   */
  FENCEPOST_EXPIRED = 6,
  /**
   * Error: an argument is NULL, not UTF-8, too long or out of range; the message names it.
   */
  FENCEPOST_INVALID_ARGUMENT = -1,
  /**
   * Error: the file stayed locked for the whole busy timeout. Nothing was changed; try again.
   */
  FENCEPOST_BUSY = -2,
  /**
   * Error: the file cannot be opened.
   */
  FENCEPOST_CANNOT_OPEN = -3,
  /**
   * Error: the file is not an SQLite database, or is encrypted.
   */
  FENCEPOST_NOT_A_DATABASE = -4,
  /**
   * Error: there is no table "jobs" yet (see fencepost_init_db), or one of another shape.
   */
  FENCEPOST_SCHEMA = -5,
  /**
   * Error: the file is damaged, or holds a row that no correct program writes.
   */
  FENCEPOST_CORRUPT = -6,
  /**
   * Error: the system reported an I/O error, or the file was deleted or replaced while it was open. The
   * operation happened whole or not at all; look with fencepost_state.
   */
  FENCEPOST_IO = -7,
  /**
   * Error: the disk is full.
   */
  FENCEPOST_FULL = -8,
  /**
   * Error: the file, or the handle, is for reading only.
   */
  FENCEPOST_READ_ONLY = -9,
  /**
   * Error: memory ran out.
   */
  FENCEPOST_OUT_OF_MEMORY = -10,
  /**
   * Error: the job's fence is the largest 64-bit number; it can never be granted again.
   */
  FENCEPOST_FENCE_EXHAUSTED = -11,
  /**
   * Error: the library does not do this, by design; the message says why.
   */
  FENCEPOST_UNSUPPORTED = -12,
  /**
   * Error: a fault of the library itself.
   */
  FENCEPOST_INTERNAL = -13,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum fencepost_status fencepost_status;
#else
typedef int32_t fencepost_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

/**
 * An open file: opaque, made by fencepost_open, ended by fencepost_close.
 */
typedef struct fencepost_db fencepost_db;

/**
 * How to open a file. Zero the whole struct, set `size` to `sizeof(fencepost_options)`, then set what
 * differs from the default. Zero means the default in every field, so fields can be added at the end
 * without breaking callers compiled before.
 */
typedef struct fencepost_options {
  /**
   * sizeof(fencepost_options) where the caller was compiled, in bytes.
   */
  size_t size;
  /**
   * How long a call waits for the file's locks, in milliseconds. 0: 5000. Negative: no wait.
   */
  int32_t busy_timeout_ms;
  /**
   * FENCEPOST_DURABILITY_FULL or FENCEPOST_DURABILITY_NORMAL.
   */
  int32_t durability;
  /**
   * FENCEPOST_OPEN_* flags, or-ed.
   */
  uint32_t flags;
} fencepost_options;

/**
 * More about what a call answered. A struct of the caller's, written by every call that takes it: after OK
 * the code is 0 and the message empty.
 */
typedef struct fencepost_error {
  /**
   * SQLite's extended result code (<https://www.sqlite.org/rescode.html>), 0 when SQLite had no part in it.
   */
  int32_t sqlite_code;
  /**
   * Zero.
   */
  int32_t reserved[3];
  /**
   * UTF-8, NUL-terminated, cut at a character: what happened, to what, and what to do.
   */
  char message[496];
} fencepost_error;

/**
 * A job that was granted to its claimer. Freed by fencepost_grant_free or with its list; the id goes with it.
 * Never make or copy one by value: fields may be added at the end.
 */
typedef struct fencepost_grant {
  /**
   * The job's id; never NULL.
   */
  const char *id;
  /**
   * The fence, above 0, that renew, complete and release ask for.
   */
  int64_t fence;
} fencepost_grant;

/**
 * Grants of fencepost_claim_batch, freed by fencepost_grants_free with all that is in them.
 */
typedef struct fencepost_grants {
  /**
   * How many there are.
   */
  size_t count;
  /**
   * `count` pointers, none NULL.
   */
  const struct fencepost_grant *const *grants;
} fencepost_grants;

/**
 * One row of the table "jobs". Made by fencepost_state and fencepost_list, freed by fencepost_job_free or with
 * its list; the strings go with it. Never make or copy one by value: fields may be added at the end.
 */
typedef struct fencepost_job {
  /**
   * The job's id; never NULL.
   */
  const char *id;
  /**
   * Who holds or last held the job; NULL when nobody has since it was made or released.
   */
  const char *owner;
  /**
   * When the lease is over, in seconds of the callers' clock; at now == until it is over.
   */
  double until;
  /**
   * The newest fence that was granted; 0 when none was.
   */
  int64_t fence;
  /**
   * The result; NULL when there is none.
   */
  const char *result;
  /**
   * Whether the job is complete.
   */
  bool done;
} fencepost_job;

/**
 * Jobs of fencepost_list, freed by fencepost_jobs_free with all that is in them.
 */
typedef struct fencepost_jobs {
  /**
   * How many there are.
   */
  size_t count;
  /**
   * `count` pointers, none NULL; NULL itself when `count` is 0.
   */
  const struct fencepost_job *const *jobs;
} fencepost_jobs;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens the database file at `path`, making an empty one when it is missing (see FENCEPOST_OPEN_EXISTING),
 * and gives a handle on it.
 *
 * `path`: UTF-8, not NULL, at most 4095 bytes (PATH_MAX, path_resolution(7)). From / on and without symbolic
 * links it may have 504 (512, less "-journal": sqlite3.c, MAX_PATHNAME), and the file's name 245 (NAME_MAX,
 * less "-fencepost"); a longer one is INVALID_ARGUMENT. Symbolic links are followed. The empty path, ":memory:" and "file:" URIs are
 * UNSUPPORTED, and so are network filesystems and files with several hard links (SQLite would give each
 * name a write-ahead log of its own).
 *
 * `options`: NULL for the defaults.
 *
 * `db`: not NULL. On OK a handle that the caller ends with fencepost_close, otherwise NULL.
 *
 * `error`: NULL, or where to put the details.
 *
 * A file with a table "jobs" is switched to WAL unless FENCEPOST_OPEN_KEEP_JOURNAL_MODE says otherwise. A
 * file without one is not changed before fencepost_init_db.
 *
 * Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN (with FENCEPOST_OPEN_READ_ONLY also where another program
 * has removed PATH-wal and PATH-shm, and this user may not make them), NOT_A_DATABASE, SCHEMA (a table "jobs"
 * of another shape), CORRUPT, IO, FULL, READ_ONLY (the file or its folder cannot be written; with
 * FENCEPOST_OPEN_READ_ONLY: a transaction that was cut short is to be undone first), OUT_OF_MEMORY,
 * UNSUPPORTED, INTERNAL.
 *
 * Threads: any, at any time.
 */
fencepost_status fencepost_open(const char *path,
                                const struct fencepost_options *options,
                                struct fencepost_db **db,
                                struct fencepost_error *error);

/**
 * Ends a handle: closes the file and frees the memory. Leases stay as they are.
 *
 * `db`: NULL is fine and does nothing. No call may be running on it, and none may follow.
 *
 * Threads: any. In a forked child it frees the child's copy and leaves the parent's alone.
 */
void fencepost_close(struct fencepost_db *db);

/**
 * Makes the table "jobs" where it is missing, and checks its shape where it is not. Any number of times,
 * from any number of programs at once. Where nothing is missing it only reads, whoever writes meanwhile.
 *
 * A file of another application gets the table added, and is switched to WAL unless
 * FENCEPOST_OPEN_KEEP_JOURNAL_MODE was given; nothing else in it is touched.
 *
 * Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
 * OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_init_db(struct fencepost_db *db, struct fencepost_error *error);

/**
 * Adds a job: nobody's, claimable at once, with fence 0.
 *
 * `id`: UTF-8, not NULL, at most FENCEPOST_MAX_TEXT bytes; the empty string is an id like any other.
 *
 * Answers OK, EXISTS (the job is left as it is), INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE,
 * SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_enqueue(struct fencepost_db *db, const char *id, struct fencepost_error *error);

/**
 * Adds a job as fencepost_enqueue does, not to be claimed before a time.
 *
 * `not_before`: seconds by the callers' clock, finite: when the job can be claimed.
 *
 * Answers and threads as fencepost_enqueue.
 */
fencepost_status fencepost_enqueue_at(struct fencepost_db *db,
                                      const char *id,
                                      double not_before,
                                      struct fencepost_error *error);

/**
 * Adds many jobs in one transaction: all that are missing, or none in case of an error.
 *
 * `ids`: `count` strings as for fencepost_enqueue; one that stands there twice is added once. NULL only when
 * `count` is 0.
 *
 * `added`: NULL, or room for `count` booleans, in the order of the ids: true for those that were added. All
 * false unless the answer is OK.
 *
 * Answers OK when one was added, or `count` is 0; EXISTS when all existed; otherwise as fencepost_enqueue.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_enqueue_many(struct fencepost_db *db,
                                        const char *const *ids,
                                        size_t count,
                                        bool *added,
                                        struct fencepost_error *error);

/**
 * Takes the job for `owner` until `now + ttl`, when it is not complete and no lease on it is running
 * (`until <= now`), and gives the new fence: one more than any before it.
 *
 * `id`, `owner`: UTF-8, not NULL, at most FENCEPOST_MAX_TEXT bytes each.
 *
 * `now`: seconds by the caller's clock, finite. All callers of a file must use clocks that agree.
 *
 * `ttl`: seconds, finite, above 0, and `now + ttl` must be finite and above `now`.
 *
 * `fence`: not NULL. On OK the fence, above 0, otherwise 0.
 *
 * Answers OK, NOT_FOUND, DONE, HELD, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT,
 * IO, FULL, READ_ONLY, OUT_OF_MEMORY, FENCE_EXHAUSTED, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_claim(struct fencepost_db *db,
                                 const char *id,
                                 const char *owner,
                                 double now,
                                 double ttl,
                                 int64_t *fence,
                                 struct fencepost_error *error);

/**
 * Makes the lease run until `now + ttl`, when `owner` and `fence` hold the job and the lease is not over.
 *
 * Arguments as for fencepost_claim; `fence` is the one that the claim gave.
 *
 * Answers OK, NOT_FOUND, DONE, STALE, EXPIRED, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE,
 * SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_renew(struct fencepost_db *db,
                                 const char *id,
                                 const char *owner,
                                 int64_t fence,
                                 double now,
                                 double ttl,
                                 struct fencepost_error *error);

/**
 * Stores the result and completes the job, when `owner` and `fence` hold it and the lease is not over. Owner, until
 * and fence stay as they are.
 *
 * One that is repeated is DONE like anybody else's. Whoever died, or lost its connection, between the commit and the
 * answer asks fencepost_state: the completion was its own when `done` is true and `owner` and `fence` are its own.
 *
 * `result`: UTF-8, at most FENCEPOST_MAX_TEXT bytes, or NULL for none (which is not the empty string).
 *
 * Other arguments as for fencepost_renew.
 *
 * Answers OK, NOT_FOUND, DONE, STALE, EXPIRED, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE,
 * SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_complete(struct fencepost_db *db,
                                    const char *id,
                                    const char *owner,
                                    int64_t fence,
                                    double now,
                                    const char *result,
                                    struct fencepost_error *error);

/**
 * Gives the job back, when `owner` and `fence` hold it, its lease over or not: anyone can claim it at once.
 * The fence stays, so the next claim's is higher.
 *
 * Arguments as for fencepost_renew.
 *
 * Answers OK, NOT_FOUND, DONE, STALE, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA,
 * CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_release(struct fencepost_db *db,
                                   const char *id,
                                   const char *owner,
                                   int64_t fence,
                                   struct fencepost_error *error);

/**
 * Gives the job back as fencepost_release does, not to be claimed before a time: to try again later.
 *
 * `not_before`: seconds by the callers' clock, finite: when the job can be claimed again.
 *
 * Other arguments, answers and threads as fencepost_release.
 */
fencepost_status fencepost_release_at(struct fencepost_db *db,
                                      const char *id,
                                      const char *owner,
                                      int64_t fence,
                                      double not_before,
                                      struct fencepost_error *error);

/**
 * Takes the claimable job that comes next. Leases that ran out and delays that are over come first, those first
 * that are over the longest; then the jobs that wait, in the order in which they were added or released. So
 * neither a stream of new jobs nor one that always fails keeps the others waiting. (In a table WITHOUT ROWID of
 * another program's, those that wait come in the order of their ids.)
 *
 * The cost does not grow with the table, nor with the leases that are running, once fencepost_init_db was
 * called on the file: it makes the index for it.
 *
 * `owner`, `now`, `ttl`: as for fencepost_claim.
 *
 * `grant`: not NULL. On OK the job's id and fence, which the caller frees with fencepost_grant_free, otherwise
 * NULL.
 *
 * Answers OK, NOT_FOUND (nothing is claimable), INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA,
 * CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_claim_next(struct fencepost_db *db,
                                      const char *owner,
                                      double now,
                                      double ttl,
                                      struct fencepost_grant **grant,
                                      struct fencepost_error *error);

/**
 * Frees a grant and its id.
 *
 * `grant`: NULL is fine and does nothing.
 *
 * Threads: any.
 */
void fencepost_grant_free(struct fencepost_grant *grant);

/**
 * Takes up to `max` claimable jobs in one transaction: those that come next, as fencepost_claim_next has it.
 *
 * `owner`, `now`, `ttl`: as for fencepost_claim, the same for all of them.
 *
 * `max`: at least 1.
 *
 * `grants`: not NULL. On OK at least one job and at most `max`, in their order, which the caller frees with
 * fencepost_grants_free, otherwise NULL.
 *
 * Answers and threads as fencepost_claim_next.
 */
fencepost_status fencepost_claim_batch(struct fencepost_db *db,
                                       const char *owner,
                                       double now,
                                       double ttl,
                                       size_t max,
                                       struct fencepost_grants **grants,
                                       struct fencepost_error *error);

/**
 * Frees grants with all that is in them.
 *
 * `grants`: NULL is fine and does nothing.
 *
 * Threads: any.
 */
void fencepost_grants_free(struct fencepost_grants *grants);

/**
 * Completes a job and takes the one that comes next, in one transaction: one sync to the disk instead of two.
 *
 * `next`: not NULL. On OK the next job as fencepost_claim_next gives it, or NULL when the job is complete and
 * nothing is claimable. Otherwise NULL: a completion that is refused claims nothing.
 *
 * Other arguments as for fencepost_complete, and `ttl` for the lease on the next job.
 *
 * Answers and threads as fencepost_complete.
 */
fencepost_status fencepost_complete_and_claim_next(struct fencepost_db *db,
                                                   const char *id,
                                                   const char *owner,
                                                   int64_t fence,
                                                   double now,
                                                   const char *result,
                                                   double ttl,
                                                   struct fencepost_grant **next,
                                                   struct fencepost_error *error);

/**
 * Claims one job for many owners at the same time, a thread each (up to 64 at once): on a free job exactly
 * one of them is granted a fence.
 *
 * `owners`: `count` strings as for fencepost_claim; the same one may stand there twice. NULL only when
 * `count` is 0.
 *
 * `fences`: room for `count` numbers, in the owners' order: the fence of the one that was granted, 0 for
 * the others. All 0 unless the answer is OK. NULL only when `count` is 0.
 *
 * Answers OK when one was granted, or `count` is 0; otherwise what fencepost_claim would have answered.
 *
 * Threads: any number on one handle. Its own have ended when it returns.
 */
fencepost_status fencepost_claim_many(struct fencepost_db *db,
                                      const char *id,
                                      const char *const *owners,
                                      size_t count,
                                      double now,
                                      double ttl,
                                      int64_t *fences,
                                      struct fencepost_error *error);

/**
 * Reads a job as it is stored now, never from a cache.
 *
 * `id`: UTF-8, not NULL.
 *
 * `job`: not NULL. On OK a job that the caller frees with fencepost_job_free, otherwise NULL.
 *
 * Answers OK, NOT_FOUND, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO,
 * FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_state(struct fencepost_db *db,
                                 const char *id,
                                 struct fencepost_job **job,
                                 struct fencepost_error *error);

/**
 * Frees a job of fencepost_state and its strings.
 *
 * `job`: NULL is fine and does nothing.
 *
 * Threads: any.
 */
void fencepost_job_free(struct fencepost_job *job);

/**
 * Counts the jobs that are in a condition at a time, in one look at the file.
 *
 * `condition`: FENCEPOST_CONDITION_CLAIMABLE, _HELD, _DELAYED, _DONE or _BROKEN. Each row is in exactly one of them.
 *
 * `now`: seconds by the callers' clock, finite.
 *
 * `count`: not NULL. On OK how many, otherwise 0.
 *
 * Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
 * OUT_OF_MEMORY, UNSUPPORTED, INTERNAL. Each row is read whole; for what is done or broken, the whole table.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_count(struct fencepost_db *db,
                                 int32_t condition,
                                 double now,
                                 uint64_t *count,
                                 struct fencepost_error *error);

/**
 * Lists the jobs that are in a condition at a time, in the order of their ids' bytes, a page at a time.
 *
 * `condition`, `now`: as for fencepost_count. Of a row that is BROKEN only `id` says something: it is not the row's id
 * but a condition in SQL that finds the row, such as `id = 'a'`, `id = X'41'` or `_rowid_ = 7`, to be looked at and
 * repaired with. owner and result are NULL, until and fence 0, and done is false.
 *
 * `after`: NULL for the first page, then the last id of the page before. A job that is added, or comes into the
 * condition, behind it meanwhile is in a later page; no job comes twice.
 *
 * `max`: at least 1. The page is read into memory, results included.
 *
 * `jobs`: not NULL. On OK at most `max` jobs, fewer only on the last page, perhaps none, which the caller frees
 * with fencepost_jobs_free; otherwise NULL.
 *
 * Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
 * OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_list(struct fencepost_db *db,
                                int32_t condition,
                                double now,
                                const char *after,
                                size_t max,
                                struct fencepost_jobs **jobs,
                                struct fencepost_error *error);

/**
 * Frees jobs of fencepost_list with all that is in them.
 *
 * `jobs`: NULL is fine and does nothing.
 *
 * Threads: any.
 */
void fencepost_jobs_free(struct fencepost_jobs *jobs);

/**
 * Ends the lease or the delay that a job has, whoever holds it: anyone can claim it at once. For operators, and for
 * leases that were granted by a wrong clock (milliseconds for seconds).
 *
 * `id`: UTF-8, not NULL.
 *
 * `fence`: not NULL. On OK the job's fence, which was raised and is granted to nobody, otherwise 0. The one that held
 * the job is STALE. Whoever checks fences outside of the file can be told to refuse those below this one.
 *
 * Answers OK, NOT_FOUND, DONE, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL,
 * READ_ONLY, OUT_OF_MEMORY, FENCE_EXHAUSTED, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_force_release(struct fencepost_db *db,
                                         const char *id,
                                         int64_t *fence,
                                         struct fencepost_error *error);

/**
 * Puts a complete job back into the line, to be done again: nobody's, claimable at once, without its result. The
 * fence stays, so the next claim's is higher. For operators.
 *
 * `id`: UTF-8, not NULL.
 *
 * Answers OK, NOT_FOUND, EXISTS (the job is not complete and is left as it is), INVALID_ARGUMENT, BUSY, CANNOT_OPEN,
 * NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY, OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_requeue(struct fencepost_db *db,
                                   const char *id,
                                   struct fencepost_error *error);

/**
 * Removes complete jobs, in one transaction. Their ids may be enqueued again: every fence from then on, of any job,
 * is above those that were removed.
 *
 * `before`: seconds by the callers' clock: only jobs whose `until` is not after it. INFINITY: all. When a job was
 * completed is not stored, but it was before its `until`.
 *
 * `max`: at least 1, how many at most. The file is locked for others meanwhile, so remove many in several calls.
 *
 * `count`: NULL, or where to put how many were removed; 0 unless the answer is OK. A job whose fence is the largest
 * 64-bit number stays.
 *
 * Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
 * OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_purge(struct fencepost_db *db,
                                 double before,
                                 size_t max,
                                 uint64_t *count,
                                 struct fencepost_error *error);

/**
 * From now on every fence that is granted in this file is above `to`, and leases under fences up to `to` are ended:
 * their holders are STALE. To be called after a backup was restored, with the highest fence that was seen before;
 * otherwise the file grants fences again that were granted since the backup was made.
 *
 * `to`: at least 0 and below INT64_MAX. Where the floor is higher already it stays.
 *
 * Answers OK, INVALID_ARGUMENT, BUSY, CANNOT_OPEN, NOT_A_DATABASE, SCHEMA, CORRUPT, IO, FULL, READ_ONLY,
 * OUT_OF_MEMORY, UNSUPPORTED, INTERNAL.
 *
 * Threads: any number on one handle.
 */
fencepost_status fencepost_raise_floor(struct fencepost_db *db,
                                       int64_t to,
                                       struct fencepost_error *error);

/**
 * Seconds since 1970-01-01 00:00 UTC by the system's clock, for callers with no clock of their own. It may
 * be set back while the program runs; that can end a lease early or late, and never lets a stale write in.
 *
 * Threads: any.
 */
double fencepost_now(void);

/**
 * The library's version, "MAJOR.MINOR.PATCH": compare it with the FENCEPOST_VERSION_* macros that the
 * caller was compiled with. Static; never NULL; not to be freed.
 *
 * Threads: any.
 */
const char *fencepost_version(void);

/**
 * The name of a status, such as "FENCEPOST_STALE"; "FENCEPOST_UNKNOWN_STATUS" for a number that this
 * version does not know. Static; never NULL; not to be freed.
 *
 * Threads: any.
 */
const char *fencepost_status_name(int32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FENCEPOST_H */

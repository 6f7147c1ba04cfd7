/*
 * In the place of libfencepost.so.0, for what the real one cannot show: another version, and calls that
 * certainly wait. Each call that can touch the file waits here until a byte comes through the pipe whose
 * descriptor is in STANDIN_PIPE. When none comes, nobody else can run in this process.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fencepost.h"

static fencepost_status wait_for_another_thread(fencepost_status answer)
{
    struct pollfd pipe = {atoi(getenv("STANDIN_PIPE")), POLLIN, 0};
    char byte;
    if (poll(&pipe, 1, 10000) != 1 || read(pipe.fd, &byte, 1) != 1) {
        fputs("no other thread ran during the call\n", stderr);
        _exit(1);
    }
    return answer;
}

const char *fencepost_version(void) { return STANDIN_VERSION; }
const char *fencepost_status_name(int32_t status) { (void)status; return ""; }
double fencepost_now(void) { return 0; }
void fencepost_job_free(fencepost_job *job) { (void)job; }

fencepost_status fencepost_open(const char *path, const fencepost_options *options, fencepost_db **db,
                                fencepost_error *error)
{
    (void)path, (void)options, (void)error;
    *db = (fencepost_db *)1;
    return wait_for_another_thread(FENCEPOST_OK);
}

void fencepost_close(fencepost_db *db)
{
    (void)db;
    wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_init_db(fencepost_db *db, fencepost_error *error)
{
    (void)db, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_enqueue(fencepost_db *db, const char *id, fencepost_error *error)
{
    (void)db, (void)id, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_state(fencepost_db *db, const char *id, fencepost_job **job, fencepost_error *error)
{
    (void)db, (void)id, (void)error;
    *job = NULL;
    return wait_for_another_thread(FENCEPOST_NOT_FOUND);
}

fencepost_status fencepost_claim(fencepost_db *db, const char *id, const char *owner, double now, double ttl,
                                 int64_t *fence, fencepost_error *error)
{
    (void)db, (void)id, (void)owner, (void)now, (void)ttl, (void)error;
    *fence = 1;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_renew(fencepost_db *db, const char *id, const char *owner, int64_t fence, double now,
                                 double ttl, fencepost_error *error)
{
    (void)db, (void)id, (void)owner, (void)fence, (void)now, (void)ttl, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_complete(fencepost_db *db, const char *id, const char *owner, int64_t fence,
                                    double now, const char *result, fencepost_error *error)
{
    (void)db, (void)id, (void)owner, (void)fence, (void)now, (void)result, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_release(fencepost_db *db, const char *id, const char *owner, int64_t fence,
                                   fencepost_error *error)
{
    (void)db, (void)id, (void)owner, (void)fence, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_claim_many(fencepost_db *db, const char *id, const char *const *owners, size_t count,
                                      double now, double ttl, int64_t *fences, fencepost_error *error)
{
    (void)db, (void)id, (void)owners, (void)count, (void)now, (void)ttl, (void)error;
    fences[0] = 1;
    return wait_for_another_thread(FENCEPOST_OK);
}

void fencepost_jobs_free(fencepost_jobs *jobs) { (void)jobs; }
void fencepost_grant_free(fencepost_grant *grant) { (void)grant; }
void fencepost_grants_free(fencepost_grants *grants) { (void)grants; }

fencepost_status fencepost_enqueue_at(fencepost_db *db, const char *id, double not_before, fencepost_error *error)
{
    (void)db, (void)id, (void)not_before, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_enqueue_many(fencepost_db *db, const char *const *ids, size_t count, bool *added,
                                        fencepost_error *error)
{
    (void)db, (void)ids, (void)count, (void)added, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_release_at(fencepost_db *db, const char *id, const char *owner, int64_t fence,
                                      double not_before, fencepost_error *error)
{
    (void)db, (void)id, (void)owner, (void)fence, (void)not_before, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_claim_next(fencepost_db *db, const char *owner, double now, double ttl,
                                      fencepost_grant **grant, fencepost_error *error)
{
    (void)db, (void)owner, (void)now, (void)ttl, (void)error;
    *grant = NULL;
    return wait_for_another_thread(FENCEPOST_NOT_FOUND);
}

fencepost_status fencepost_claim_batch(fencepost_db *db, const char *owner, double now, double ttl, size_t max,
                                       fencepost_grants **grants, fencepost_error *error)
{
    (void)db, (void)owner, (void)now, (void)ttl, (void)max, (void)error;
    *grants = NULL;
    return wait_for_another_thread(FENCEPOST_NOT_FOUND);
}

fencepost_status fencepost_complete_and_claim_next(fencepost_db *db, const char *id, const char *owner, int64_t fence,
                                                   double now, const char *result, double ttl,
                                                   fencepost_grant **next, fencepost_error *error)
{
    (void)db, (void)id, (void)owner, (void)fence, (void)now, (void)result, (void)ttl, (void)error;
    *next = NULL;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_count(fencepost_db *db, int32_t condition, double now, uint64_t *count,
                                 fencepost_error *error)
{
    (void)db, (void)condition, (void)now, (void)error;
    *count = 0;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_list(fencepost_db *db, int32_t condition, double now, const char *after, size_t max,
                                fencepost_jobs **jobs, fencepost_error *error)
{
    static fencepost_jobs none;
    (void)db, (void)condition, (void)now, (void)after, (void)max, (void)error;
    *jobs = &none;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_force_release(fencepost_db *db, const char *id, int64_t *fence, fencepost_error *error)
{
    (void)db, (void)id, (void)error;
    *fence = 1;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_requeue(fencepost_db *db, const char *id, fencepost_error *error)
{
    (void)db, (void)id, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_purge(fencepost_db *db, double before, size_t max, uint64_t *count, fencepost_error *error)
{
    (void)db, (void)before, (void)max, (void)error;
    *count = 0;
    return wait_for_another_thread(FENCEPOST_OK);
}

fencepost_status fencepost_raise_floor(fencepost_db *db, int64_t to, fencepost_error *error)
{
    (void)db, (void)to, (void)error;
    return wait_for_another_thread(FENCEPOST_OK);
}

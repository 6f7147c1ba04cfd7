/*
 * A worker that takes one job, renews its lease while it works, and stores the result under its fence.
 *
 *     worker FILE JOB OWNER
 */
#include <fencepost.h>

#include <stdio.h>

static const double TTL = 10; /* seconds */

int main(int count, char **arguments) {
    fencepost_db *db;
    fencepost_error error;
    int64_t fence;
    fencepost_status status;

    if (count != 4) {
        fputs("usage: worker FILE JOB OWNER\n", stderr);
        return 2;
    }
    const char *id = arguments[2], *owner = arguments[3];

    status = fencepost_open(arguments[1], NULL, &db, &error);
    if (status == FENCEPOST_OK) status = fencepost_init_db(db, &error);
    if (status == FENCEPOST_OK) status = fencepost_enqueue(db, id, &error);
    if (status == FENCEPOST_OK || status == FENCEPOST_EXISTS) {
        status = fencepost_claim(db, id, owner, fencepost_now(), TTL, &fence, &error);
    }
    if (status == FENCEPOST_OK) printf("%s holds %s with fence %lld\n", owner, id, (long long)fence);

    for (int part = 1; part <= 3 && status == FENCEPOST_OK; part++) {
        /* A refusal here means that another worker has the job: stop, whatever was done so far. */
        status = fencepost_renew(db, id, owner, fence, fencepost_now(), TTL, &error);
        if (status == FENCEPOST_OK) printf("part %d is done\n", part);
    }
    if (status == FENCEPOST_OK) {
        status = fencepost_complete(db, id, owner, fence, fencepost_now(), "three parts", &error);
    }

    if (status == FENCEPOST_OK) {
        puts("stored");
    } else {
        fprintf(stderr, "%s: %s\n", fencepost_status_name(status), error.message);
    }
    fencepost_close(db);
    return status != FENCEPOST_OK;
}

/*
 * Worker A of the story, in C. It does what it is told on its standard input, a line at a time, and answers
 * with a line each: the status, and the fence when a claim was granted.
 *
 *     claim JOB NOW               for 10 seconds
 *     complete JOB NOW RESULT     with the fence that its claim was granted
 *
 * Between two lines it stands still, as a stalled worker does: it learns of nothing that happens meanwhile.
 */
#include <fencepost.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    fencepost_db *db = NULL;
    fencepost_error error;
    fencepost_status status;
    int64_t fence = 0;
    char line[256], job[64], result[128];
    double now;

    if (argc != 2) {
        fprintf(stderr, "usage: worker FILE\n");
        return 2;
    }
    status = fencepost_open(argv[1], NULL, &db, &error);

    while (status >= 0 && fgets(line, sizeof line, stdin) != NULL) {
        bool granted = false;
        if (sscanf(line, "claim %63s %lf", job, &now) == 2) {
            status = fencepost_claim(db, job, "A", now, 10, &fence, &error);
            granted = status == FENCEPOST_OK;
        } else if (sscanf(line, "complete %63s %lf %127[^\n]", job, &now, result) == 3) {
            status = fencepost_complete(db, job, "A", fence, now, result, &error);
        } else {
            fprintf(stderr, "worker A: what is this: %s", line);
            fencepost_close(db);
            return 2;
        }
        if (status >= 0) {
            printf("%s", fencepost_status_name(status) + strlen("FENCEPOST_"));
            if (granted) printf(", fence %" PRId64, fence);
            printf("\n");
            fflush(stdout);
        }
    }

    fencepost_close(db);
    if (status < 0) {
        fprintf(stderr, "worker A: %s: %s\n", fencepost_status_name(status), error.message);
        return 1;
    }
    return 0;
}

/* Claims one job in the file given, and prints its fence and the library's version. */
#include <fencepost.h>

#include <stdio.h>

int main(int count, char **arguments) {
    fencepost_db *db;
    fencepost_error error;
    int64_t fence = 0;
    fencepost_status status;

    if (count != 2) return 2;
    status = fencepost_open(arguments[1], NULL, &db, &error);
    if (status == FENCEPOST_OK) status = fencepost_init_db(db, &error);
    if (status == FENCEPOST_OK) status = fencepost_enqueue(db, "job", &error);
    if (status == FENCEPOST_OK) status = fencepost_claim(db, "job", "C", 100, 10, &fence, &error);
    if (status != FENCEPOST_OK) fprintf(stderr, "%s: %s\n", fencepost_status_name(status), error.message);
    fencepost_close(db);
    printf("C: fence %d from fencepost %s\n", (int)fence, fencepost_version());
    return status != FENCEPOST_OK;
}

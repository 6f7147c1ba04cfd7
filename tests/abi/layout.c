/* Numbers and layouts: they never change meaning. 64-bit Linux. */
#include "test.h"

#include <stddef.h>

#define AT(type, field, offset, size)                                                                                  \
    _Static_assert(offsetof(type, field) == (offset) && sizeof(((type *)0)->field) == (size), #type "." #field)

AT(fencepost_error, sqlite_code, 0, 4);
AT(fencepost_error, reserved, 4, 12);
AT(fencepost_error, message, 16, 496);
_Static_assert(sizeof(fencepost_error) == 512, "fencepost_error");

AT(fencepost_options, size, 0, 8);
AT(fencepost_options, busy_timeout_ms, 8, 4);
AT(fencepost_options, durability, 12, 4);
AT(fencepost_options, flags, 16, 4);
_Static_assert(sizeof(fencepost_options) == 24, "fencepost_options");

AT(fencepost_job, id, 0, 8);
AT(fencepost_job, owner, 8, 8);
AT(fencepost_job, until, 16, 8);
AT(fencepost_job, fence, 24, 8);
AT(fencepost_job, result, 32, 8);
AT(fencepost_job, done, 40, 1);

AT(fencepost_jobs, count, 0, 8);
AT(fencepost_jobs, jobs, 8, 8);

AT(fencepost_grant, id, 0, 8);
AT(fencepost_grant, fence, 8, 8);

AT(fencepost_grants, count, 0, 8);
AT(fencepost_grants, grants, 8, 8);

_Static_assert(FENCEPOST_CONDITION_CLAIMABLE == 1 && FENCEPOST_CONDITION_HELD == 2 && FENCEPOST_CONDITION_DELAYED == 3 &&
                   FENCEPOST_CONDITION_DONE == 4 && FENCEPOST_CONDITION_BROKEN == 5,
               "conditions");
_Static_assert(sizeof(fencepost_status) == 4, "fencepost_status");
_Static_assert(FENCEPOST_DURABILITY_FULL == 0 && FENCEPOST_DURABILITY_NORMAL == 1, "durability");
_Static_assert(FENCEPOST_OPEN_EXISTING == 1 && FENCEPOST_OPEN_READ_ONLY == 2 && FENCEPOST_OPEN_KEEP_JOURNAL_MODE == 4 &&
                   FENCEPOST_OPEN_ALLOW_NETWORK_FILESYSTEM == 8,
               "flags");

static void every_status_has_its_number_and_name(void) {
    static const struct {
        int32_t status, number;
        const char *name;
    } all[] = {
#define STATUS(name, number) {FENCEPOST_##name, number, "FENCEPOST_" #name}
        STATUS(OK, 0),
        STATUS(EXISTS, 1),
        STATUS(NOT_FOUND, 2),
        STATUS(HELD, 3),
        STATUS(DONE, 4),
        STATUS(STALE, 5),
        STATUS(EXPIRED, 6),
        STATUS(INVALID_ARGUMENT, -1),
        STATUS(BUSY, -2),
        STATUS(CANNOT_OPEN, -3),
        STATUS(NOT_A_DATABASE, -4),
        STATUS(SCHEMA, -5),
        STATUS(CORRUPT, -6),
        STATUS(IO, -7),
        STATUS(FULL, -8),
        STATUS(READ_ONLY, -9),
        STATUS(OUT_OF_MEMORY, -10),
        STATUS(FENCE_EXHAUSTED, -11),
        STATUS(UNSUPPORTED, -12),
        STATUS(INTERNAL, -13),
    };

    for (size_t index = 0; index < sizeof all / sizeof *all; index++) {
        CHECK(all[index].status == all[index].number);
        CHECK(strcmp(fencepost_status_name(all[index].number), all[index].name) == 0);
    }
}

static void an_unknown_status_has_a_name_too(void) {
    static const int32_t unknown[] = {7, -14, 1000, INT32_MAX, INT32_MIN};

    for (size_t index = 0; index < sizeof unknown / sizeof *unknown; index++) {
        CHECK(strcmp(fencepost_status_name(unknown[index]), "FENCEPOST_UNKNOWN_STATUS") == 0);
    }
}

static void the_macros_say_the_librarys_version(void) {
    char composed[32];

    snprintf(composed, sizeof composed, "%d.%d.%d", FENCEPOST_VERSION_NUMBER >> 16, FENCEPOST_VERSION_NUMBER >> 8 & 0xff,
             FENCEPOST_VERSION_NUMBER & 0xff);
    CHECK(strcmp(FENCEPOST_VERSION, fencepost_version()) == 0);
    CHECK(strcmp(composed, fencepost_version()) == 0);
}

static void now_is_a_present_day_number_of_seconds(void) { CHECK(fencepost_now() > 1.7e9 && fencepost_now() < 1e11); }

int main(int count, char **arguments) {
    static const struct test tests[] = {
        {"every status has its number and name", every_status_has_its_number_and_name},
        {"an unknown status has a name too", an_unknown_status_has_a_name_too},
        {"the macros say the library's version", the_macros_say_the_librarys_version},
        {"now is a present-day number of seconds", now_is_a_present_day_number_of_seconds},
        {NULL, NULL},
    };
    return run_tests(count, arguments, tests);
}

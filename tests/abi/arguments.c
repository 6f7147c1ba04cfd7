/* Bad arguments: none crashes, hangs, leaks or changes the file. */
#include "test.h"

#include <math.h>
#include <unistd.h>

static fencepost_db *db;
static fencepost_error error;

/* One free job "free", and one "held" by "w" with fence 1 from 100 to 110. */
static void prepare(void) {
    int64_t fence;

    db = open_ready("jobs.db");
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "free", &error));
    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, "held", &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "held", "w", 100, 10, &fence, &error));
}

/* Every call below is INVALID_ARGUMENT; the message names the parameter. */
#define INVALID(name, call)                                                                                            \
    do {                                                                                                               \
        ANSWERS(FENCEPOST_INVALID_ARGUMENT, call);                                                                     \
        if (strstr(error.message, name) == NULL) fail(__FILE__, __LINE__, "does not name " name ": %s", error.message); \
    } while (0)

static void null_for_every_pointer_in_turn(void) {
    const char *owners[] = {"w", NULL};
    int64_t fence = 7, fences[2] = {7, 7};
    fencepost_job *job = (fencepost_job *)&fence;
    fencepost_db *opened = (fencepost_db *)&fence;

    prepare();
    char *before = snapshot();

    INVALID("path", fencepost_open(NULL, NULL, &opened, &error));
    CHECK(opened == NULL);
    INVALID("db", fencepost_open("other.db", NULL, NULL, &error));

    INVALID("db", fencepost_init_db(NULL, &error));
    INVALID("db", fencepost_enqueue(NULL, "free", &error));
    INVALID("id", fencepost_enqueue(db, NULL, &error));

    INVALID("db", fencepost_state(NULL, "free", &job, &error));
    CHECK(job == NULL);
    INVALID("id", fencepost_state(db, NULL, &job, &error));
    INVALID("job", fencepost_state(db, "free", NULL, &error));

    INVALID("db", fencepost_claim(NULL, "free", "w", 1, 1, &fence, &error));
    CHECK(fence == 0);
    INVALID("id", fencepost_claim(db, NULL, "w", 1, 1, &fence, &error));
    INVALID("owner", fencepost_claim(db, "free", NULL, 1, 1, &fence, &error));
    INVALID("fence", fencepost_claim(db, "free", "w", 1, 1, NULL, &error));

    INVALID("db", fencepost_renew(NULL, "held", "w", 1, 101, 1, &error));
    INVALID("id", fencepost_renew(db, NULL, "w", 1, 101, 1, &error));
    INVALID("owner", fencepost_renew(db, "held", NULL, 1, 101, 1, &error));

    INVALID("db", fencepost_complete(NULL, "held", "w", 1, 101, "r", &error));
    INVALID("id", fencepost_complete(db, NULL, "w", 1, 101, "r", &error));
    INVALID("owner", fencepost_complete(db, "held", NULL, 1, 101, "r", &error));

    INVALID("db", fencepost_release(NULL, "held", "w", 1, &error));
    INVALID("id", fencepost_release(db, NULL, "w", 1, &error));
    INVALID("owner", fencepost_release(db, "held", NULL, 1, &error));

    INVALID("db", fencepost_claim_many(NULL, "free", owners, 1, 1, 1, fences, &error));
    CHECK(fences[0] == 0 && fences[1] == 7);
    INVALID("id", fencepost_claim_many(db, NULL, owners, 1, 1, 1, fences, &error));
    INVALID("owners", fencepost_claim_many(db, "free", NULL, 2, 1, 1, fences, &error));
    INVALID("owners[1]", fencepost_claim_many(db, "free", owners, 2, 1, 1, fences, &error));
    INVALID("fences", fencepost_claim_many(db, "free", owners, 1, 1, 1, NULL, &error));

    CHECK(strcmp(before, snapshot()) == 0);
    fencepost_close(db);
}

static void null_for_every_pointer_of_the_workers_loop(void) {
    const char *ids[] = {"new", NULL};
    bool added[2] = {true, true};
    int64_t memory = 7;
    uint64_t count = 7;
    fencepost_grant *grant = (fencepost_grant *)&memory;
    fencepost_grants *grants = (fencepost_grants *)&memory;
    fencepost_jobs *jobs = (fencepost_jobs *)&memory;

    prepare();
    char *before = snapshot();

    INVALID("db", fencepost_enqueue_at(NULL, "new", 1, &error));
    INVALID("id", fencepost_enqueue_at(db, NULL, 1, &error));
    INVALID("db", fencepost_release_at(NULL, "held", "w", 1, 1, &error));
    INVALID("id", fencepost_release_at(db, NULL, "w", 1, 1, &error));
    INVALID("owner", fencepost_release_at(db, "held", NULL, 1, 1, &error));

    INVALID("db", fencepost_enqueue_many(NULL, ids, 1, added, &error));
    CHECK(!added[0] && added[1]);
    INVALID("ids", fencepost_enqueue_many(db, NULL, 2, added, &error));
    CHECK(!added[0] && !added[1]);
    INVALID("ids[1]", fencepost_enqueue_many(db, ids, 2, NULL, &error));
    INVALID("count", fencepost_enqueue_many(db, ids, SIZE_MAX, added, &error));

    INVALID("db", fencepost_claim_next(NULL, "w", 200, 1, &grant, &error));
    CHECK(grant == NULL);
    INVALID("owner", fencepost_claim_next(db, NULL, 200, 1, &grant, &error));
    INVALID("grant", fencepost_claim_next(db, "w", 200, 1, NULL, &error));
    INVALID("db", fencepost_claim_batch(NULL, "w", 200, 1, 1, &grants, &error));
    CHECK(grants == NULL);
    INVALID("owner", fencepost_claim_batch(db, NULL, 200, 1, 1, &grants, &error));
    INVALID("grants", fencepost_claim_batch(db, "w", 200, 1, 1, NULL, &error));
    INVALID("max", fencepost_claim_batch(db, "w", 200, 1, 0, &grants, &error));

    grant = (fencepost_grant *)&memory;
    INVALID("db", fencepost_complete_and_claim_next(NULL, "held", "w", 1, 101, "r", 1, &grant, &error));
    CHECK(grant == NULL);
    INVALID("id", fencepost_complete_and_claim_next(db, NULL, "w", 1, 101, "r", 1, &grant, &error));
    INVALID("owner", fencepost_complete_and_claim_next(db, "held", NULL, 1, 101, "r", 1, &grant, &error));
    INVALID("next", fencepost_complete_and_claim_next(db, "held", "w", 1, 101, "r", 1, NULL, &error));

    INVALID("db", fencepost_count(NULL, FENCEPOST_CONDITION_HELD, 1, &count, &error));
    CHECK(count == 0);
    INVALID("count", fencepost_count(db, FENCEPOST_CONDITION_HELD, 1, NULL, &error));
    INVALID("db", fencepost_list(NULL, FENCEPOST_CONDITION_HELD, 1, NULL, 1, &jobs, &error));
    CHECK(jobs == NULL);
    INVALID("jobs", fencepost_list(db, FENCEPOST_CONDITION_HELD, 1, NULL, 1, NULL, &error));
    INVALID("max", fencepost_list(db, FENCEPOST_CONDITION_HELD, 1, NULL, 0, &jobs, &error));
    static const int32_t none[] = {0, 6, -1, INT32_MAX, INT32_MIN};
    for (size_t index = 0; index < sizeof none / sizeof *none; index++) {
        INVALID("condition", fencepost_count(db, none[index], 1, &count, &error));
        INVALID("condition", fencepost_list(db, none[index], 1, NULL, 1, &jobs, &error));
    }

    CHECK(strcmp(before, snapshot()) == 0);

    /* What was added need not be told, and the largest page is as long as there are jobs. */
    ANSWERS(FENCEPOST_OK, fencepost_enqueue_many(db, ids, 1, NULL, &error));
    ANSWERS(FENCEPOST_OK, fencepost_list(db, FENCEPOST_CONDITION_CLAIMABLE, 1, NULL, SIZE_MAX, &jobs, &error));
    CHECK(jobs->count == 2 && strcmp(jobs->jobs[1]->id, "new") == 0);
    fencepost_jobs_free(jobs);
    ANSWERS(FENCEPOST_OK, fencepost_claim_batch(db, "v", 1, 1, SIZE_MAX, &grants, &error));
    CHECK(grants->count == 2 && grants->grants[0]->fence == 1);
    fencepost_grants_free(grants);
    fencepost_close(db);
}

/* What was given before is not left where a refusal or an error is answered. */
static void nothing_is_given_when_it_is_refused(void) {
    int64_t memory = 7;
    fencepost_grant *grant;
    fencepost_grants *grants = (fencepost_grants *)&memory;
    bool added[1] = {true};
    const char *ids[] = {"free"};

    prepare();
    ANSWERS(FENCEPOST_EXISTS, fencepost_enqueue_many(db, ids, 1, added, &error));
    CHECK(!added[0]);
    ANSWERS(FENCEPOST_OK, fencepost_claim_next(db, "v", 105, 10, &grant, &error));
    CHECK(strcmp(grant->id, "free") == 0 && grant->fence == 1);
    fencepost_grant_free(grant);
    ANSWERS(FENCEPOST_NOT_FOUND, fencepost_claim_next(db, "v", 105, 10, &grant, &error));
    CHECK(grant == NULL);
    ANSWERS(FENCEPOST_NOT_FOUND, fencepost_claim_batch(db, "v", 105, 10, 5, &grants, &error));
    CHECK(grants == NULL);
    grant = (fencepost_grant *)&memory;
    ANSWERS(FENCEPOST_STALE, fencepost_complete_and_claim_next(db, "held", "w", 2, 105, "r", 1, &grant, &error));
    CHECK(grant == NULL);
    grant = (fencepost_grant *)&memory;
    ANSWERS(FENCEPOST_OK, fencepost_complete_and_claim_next(db, "held", "w", 1, 105, "r", 1, &grant, &error));
    CHECK(grant == NULL);
    fencepost_close(db);
}

static void the_error_may_be_null_everywhere(void) {
    int64_t fence;
    fencepost_db *opened;
    fencepost_job *job;

    CHECK(fencepost_open(NULL, NULL, &opened, NULL) == FENCEPOST_INVALID_ARGUMENT);
    CHECK(fencepost_open("jobs.db", NULL, &opened, NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(opened, "a", NULL) == FENCEPOST_SCHEMA);
    CHECK(fencepost_init_db(opened, NULL) == FENCEPOST_OK);
    CHECK(fencepost_enqueue(opened, "a", NULL) == FENCEPOST_OK);
    CHECK(fencepost_claim(opened, "a", "w", 1, 1, &fence, NULL) == FENCEPOST_OK);
    CHECK(fencepost_renew(opened, "a", "w", 1, 1, 2, NULL) == FENCEPOST_OK);
    CHECK(fencepost_release(opened, "a", "v", 1, NULL) == FENCEPOST_STALE);
    CHECK(fencepost_complete(opened, "a", "w", 1, 1, NULL, NULL) == FENCEPOST_OK);
    CHECK(fencepost_state(opened, "b", &job, NULL) == FENCEPOST_NOT_FOUND);
    CHECK(fencepost_claim_many(opened, "a", NULL, 0, 1, 1, NULL, NULL) == FENCEPOST_OK);
    fencepost_close(opened);
}

static void what_was_not_made_can_be_freed(void) {
    fencepost_close(NULL);
    fencepost_job_free(NULL);
    fencepost_jobs_free(NULL);
    fencepost_grant_free(NULL);
    fencepost_grants_free(NULL);
}

static void text_that_is_not_utf8(void) {
    static const char *const bad[] = {
        "\xff", "a\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80" /* a surrogate */, "\xf4\x90\x80\x80" /* too large */, "\xe2\x82",
    };
    int64_t fence;
    fencepost_db *opened;
    fencepost_job *job;

    prepare();
    char *before = snapshot();
    for (size_t index = 0; index < sizeof bad / sizeof *bad; index++) {
        const char *owners[] = {"v", bad[index]};
        int64_t fences[2];

        INVALID("path", fencepost_open(bad[index], NULL, &opened, &error));
        INVALID("id", fencepost_enqueue(db, bad[index], &error));
        INVALID("id", fencepost_state(db, bad[index], &job, &error));
        INVALID("id", fencepost_claim(db, bad[index], "w", 1, 1, &fence, &error));
        INVALID("owner", fencepost_claim(db, "free", bad[index], 1, 1, &fence, &error));
        INVALID("id", fencepost_renew(db, bad[index], "w", 1, 101, 1, &error));
        INVALID("owner", fencepost_renew(db, "held", bad[index], 1, 101, 1, &error));
        INVALID("id", fencepost_complete(db, bad[index], "w", 1, 101, "r", &error));
        INVALID("owner", fencepost_complete(db, "held", bad[index], 1, 101, "r", &error));
        INVALID("result", fencepost_complete(db, "held", "w", 1, 101, bad[index], &error));
        INVALID("id", fencepost_release(db, bad[index], "w", 1, &error));
        INVALID("owner", fencepost_release(db, "held", bad[index], 1, &error));
        INVALID("id", fencepost_claim_many(db, bad[index], owners, 1, 1, 1, fences, &error));
        INVALID("owners[1]", fencepost_claim_many(db, "free", owners, 2, 1, 1, fences, &error));
    }
    CHECK(strcmp(before, snapshot()) == 0);
    fencepost_close(db);
}

static char *letters(size_t length) {
    char *text = malloc(length + 1);

    CHECK(text != NULL);
    memset(text, 'x', length);
    text[length] = '\0';
    return text;
}

static void text_at_the_limit_and_above(void) {
    char *most = letters(FENCEPOST_MAX_TEXT), *above = letters(FENCEPOST_MAX_TEXT + 1), *huge = letters(100000000);
    char *too_long[] = {above, huge};
    int64_t fence;
    fencepost_job *job;
    fencepost_db *opened;

    prepare();
    char *before = snapshot();
    for (size_t index = 0; index < 2; index++) {
        const char *owners[] = {"v", too_long[index]};
        int64_t fences[2];

        INVALID("path", fencepost_open(too_long[index], NULL, &opened, &error));
        INVALID("id", fencepost_enqueue(db, too_long[index], &error));
        INVALID("id", fencepost_state(db, too_long[index], &job, &error));
        INVALID("id", fencepost_claim(db, too_long[index], "w", 1, 1, &fence, &error));
        INVALID("owner", fencepost_claim(db, "free", too_long[index], 1, 1, &fence, &error));
        INVALID("owner", fencepost_renew(db, "held", too_long[index], 1, 101, 1, &error));
        INVALID("result", fencepost_complete(db, "held", "w", 1, 101, too_long[index], &error));
        INVALID("owner", fencepost_release(db, "held", too_long[index], 1, &error));
        INVALID("owners[1]", fencepost_claim_many(db, "free", owners, 2, 1, 1, fences, &error));
    }
    CHECK(strcmp(before, snapshot()) == 0);

    ANSWERS(FENCEPOST_OK, fencepost_enqueue(db, most, &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim(db, most, most, 100, 10, &fence, &error));
    ANSWERS(FENCEPOST_OK, fencepost_complete(db, most, most, fence, 101, most, &error));
    ANSWERS(FENCEPOST_DONE, fencepost_claim(db, most, "w", 200, 10, &fence, &error));
    ANSWERS(FENCEPOST_OK, fencepost_state(db, most, &job, &error));
    CHECK(strcmp(job->id, most) == 0 && strcmp(job->owner, most) == 0 && strcmp(job->result, most) == 0);
    fencepost_job_free(job);
    fencepost_close(db);
    free(most), free(above), free(huge);
}

static void times_that_make_no_lease(void) {
    static const double no_ttl[] = {0, -0.0, -1, -INFINITY, INFINITY, NAN, -5e-324};
    static const double no_now[] = {NAN, INFINITY, -INFINITY};
    /* now and ttl, whose sum is now, or infinite. */
    static const double no_sum[][2] = {{1e300, 1}, {9007199254740992.0, 1}, {100, 5e-324}, {1.7e308, 1.7e308}, {-1e300, 1}};
    const char *owners[] = {"v"};
    int64_t fence, fences[1];

    prepare();
    char *before = snapshot();
    for (size_t index = 0; index < sizeof no_ttl / sizeof *no_ttl; index++) {
        INVALID("ttl", fencepost_claim(db, "free", "v", 100, no_ttl[index], &fence, &error));
        INVALID("ttl", fencepost_claim(db, "no such job", "v", 100, no_ttl[index], &fence, &error));
        INVALID("ttl", fencepost_renew(db, "held", "w", 1, 101, no_ttl[index], &error));
        INVALID("ttl", fencepost_claim_many(db, "free", owners, 1, 100, no_ttl[index], fences, &error));
        INVALID("ttl", fencepost_claim_many(db, "free", NULL, 0, 100, no_ttl[index], NULL, &error));
    }
    for (size_t index = 0; index < sizeof no_now / sizeof *no_now; index++) {
        INVALID("now", fencepost_claim(db, "free", "v", no_now[index], 10, &fence, &error));
        INVALID("now", fencepost_renew(db, "held", "w", 1, no_now[index], 10, &error));
        INVALID("now", fencepost_complete(db, "held", "w", 1, no_now[index], "r", &error));
        INVALID("now", fencepost_claim_many(db, "free", owners, 1, no_now[index], 10, fences, &error));
    }
    for (size_t index = 0; index < sizeof no_sum / sizeof *no_sum; index++) {
        INVALID("now + ttl", fencepost_claim(db, "free", "v", no_sum[index][0], no_sum[index][1], &fence, &error));
        INVALID("now + ttl", fencepost_renew(db, "held", "w", 1, no_sum[index][0], no_sum[index][1], &error));
    }
    CHECK(strcmp(before, snapshot()) == 0);

    ANSWERS(FENCEPOST_OK, fencepost_claim(db, "free", "v", 0, 5e-324, &fence, &error));
    ANSWERS(FENCEPOST_EXPIRED, fencepost_renew(db, "free", "v", 1, 5e-324, 1, &error));
    fencepost_close(db);
}

static void fences_that_were_never_granted(void) {
    static const int64_t never[] = {0, -1, 2, INT64_MAX, INT64_MIN};

    prepare();
    char *before = snapshot();
    for (size_t index = 0; index < sizeof never / sizeof *never; index++) {
        ANSWERS(FENCEPOST_STALE, fencepost_renew(db, "held", "w", never[index], 101, 10, &error));
        ANSWERS(FENCEPOST_STALE, fencepost_complete(db, "held", "w", never[index], 101, "r", &error));
        ANSWERS(FENCEPOST_STALE, fencepost_release(db, "held", "w", never[index], &error));
        ANSWERS(FENCEPOST_STALE, fencepost_release(db, "free", "", never[index], &error));
    }
    CHECK(strcmp(before, snapshot()) == 0);
    fencepost_close(db);
}

static void no_owners_at_all(void) {
    const char *owners[] = {NULL};
    int64_t fences[1] = {7};

    prepare();
    char *before = snapshot();
    ANSWERS(FENCEPOST_OK, fencepost_claim_many(db, "free", NULL, 0, 100, 10, NULL, &error));
    ANSWERS(FENCEPOST_OK, fencepost_claim_many(db, "free", owners, 0, 100, 10, fences, &error));
    CHECK(fences[0] == 7);
    /* A negative number that became a size. */
    INVALID("count", fencepost_claim_many(db, "free", owners, (size_t)-1, 100, 10, fences, &error));
    INVALID("count", fencepost_claim_many(db, "free", owners, SIZE_MAX / 2, 100, 10, fences, &error));
    CHECK(strcmp(before, snapshot()) == 0);
    fencepost_close(db);
}

static void thousands_of_owners(void) {
    enum { COUNT = 5000 };
    static char names[COUNT][8];
    static const char *owners[COUNT];
    static int64_t fences[COUNT];
    int64_t sum = 0;
    size_t granted = 0;
    fencepost_job *job;

    prepare();
    for (size_t index = 0; index < COUNT; index++) {
        snprintf(names[index], sizeof names[index], "w%zu", index);
        owners[index] = names[index];
        fences[index] = -1;
    }
    ANSWERS(FENCEPOST_OK, fencepost_claim_many(db, "free", owners, COUNT, 100, 10, fences, &error));
    for (size_t index = 0; index < COUNT; index++) {
        sum += fences[index];
        if (fences[index] != 0) granted = index;
    }
    CHECK(sum == 1 && fences[granted] == 1);
    ANSWERS(FENCEPOST_OK, fencepost_state(db, "free", &job, &error));
    CHECK(strcmp(job->owner, owners[granted]) == 0 && job->fence == 1);
    fencepost_job_free(job);
    fencepost_close(db);
}

/* --- options --- */

static fencepost_status opened(const void *options) {
    fencepost_db *handle;
    fencepost_status status = fencepost_open("options.db", options, &handle, &error);

    CHECK((handle != NULL) == (status == FENCEPOST_OK));
    fencepost_close(handle);
    return status;
}

static void options_of_every_size(void) {
    /* Of exactly the size that it claims, so that a read beyond it shows under the sanitizer. */
    for (size_t size = 0; size <= 64; size++) {
        unsigned char *options = calloc(1, size < sizeof size ? sizeof size : size);

        CHECK(options != NULL);
        memcpy(options, &size, sizeof size);
        if (size < sizeof size) {
            INVALID("options.size", opened(options));
        } else {
            ANSWERS(FENCEPOST_OK, opened(options));
        }
        free(options);
    }
}

static void options_of_a_senseless_size(void) {
    static const size_t sizes[] = {4097, 1u << 20, SIZE_MAX / 2, SIZE_MAX};

    for (size_t index = 0; index < sizeof sizes / sizeof *sizes; index++) {
        fencepost_options options = {.size = sizes[index]};

        INVALID("options.size", opened(&options));
    }
}

static void options_with_a_tail_that_means_something(void) {
    unsigned char options[4096] = {0};
    size_t size = sizeof options;

    memcpy(options, &size, sizeof size);
    ANSWERS(FENCEPOST_OK, opened(options));
    for (size_t place = sizeof(fencepost_options); place < sizeof options; place += 509) {
        options[place] = 1;
        INVALID("options", opened(options));
        options[place] = 0;
    }
    options[sizeof options - 1] = 1;
    INVALID("options", opened(options));
}

static void options_with_anything_in_the_padding(void) {
    fencepost_options options;

    memset(&options, 0xff, sizeof options);
    options.size = sizeof options;
    options.busy_timeout_ms = -1;
    options.durability = FENCEPOST_DURABILITY_NORMAL;
    options.flags = 0;
    ANSWERS(FENCEPOST_OK, opened(&options));
}

static void options_with_values_that_do_not_exist(void) {
    static const int32_t durabilities[] = {2, -1, INT32_MAX, INT32_MIN};

    for (size_t index = 0; index < sizeof durabilities / sizeof *durabilities; index++) {
        fencepost_options options = {.size = sizeof options, .durability = durabilities[index]};
        INVALID("durability", opened(&options));
    }
    for (unsigned bit = 4; bit < 32; bit++) {
        fencepost_options options = {.size = sizeof options, .flags = 1u << bit};
        INVALID("flags", opened(&options));
    }
    CHECK(access("options.db", F_OK) != 0);
}

static void timeouts_of_every_kind(void) {
    static const int32_t timeouts[] = {0, 1, -1, INT32_MAX, INT32_MIN};

    for (size_t index = 0; index < sizeof timeouts / sizeof *timeouts; index++) {
        fencepost_options options = {.size = sizeof options, .busy_timeout_ms = timeouts[index]};
        ANSWERS(FENCEPOST_OK, opened(&options));
    }
}

int main(int count, char **arguments) {
    static const struct test tests[] = {
        {"NULL for every pointer in turn", null_for_every_pointer_in_turn},
        {"NULL for every pointer of the worker's loop", null_for_every_pointer_of_the_workers_loop},
        {"nothing is given when it is refused", nothing_is_given_when_it_is_refused},
        {"the error may be NULL everywhere", the_error_may_be_null_everywhere},
        {"what was not made can be freed", what_was_not_made_can_be_freed},
        {"text that is not UTF-8", text_that_is_not_utf8},
        {"large: text at the limit and above", text_at_the_limit_and_above},
        {"times that make no lease", times_that_make_no_lease},
        {"fences that were never granted", fences_that_were_never_granted},
        {"no owners at all", no_owners_at_all},
        {"large: thousands of owners", thousands_of_owners},
        {"options of every size", options_of_every_size},
        {"options of a senseless size", options_of_a_senseless_size},
        {"options with a tail that means something", options_with_a_tail_that_means_something},
        {"options with anything in the padding", options_with_anything_in_the_padding},
        {"options with values that do not exist", options_with_values_that_do_not_exist},
        {"timeouts of every kind", timeouts_of_every_kind},
        {NULL, NULL},
    };
    return run_tests(count, arguments, tests);
}

/*
 * Runs the contract data of tests/contract through the C ABI. The format is in the README.md there.
 *
 *     contract FILE...
 */
#include <fencepost.h>

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 200 };

enum kind { BARE, TEXT, LIST };

struct word {
    enum kind kind;
    char *text;        /* BARE and TEXT */
    char **list;       /* LIST: borrowed from the words that follow as TEXT in the pool */
    size_t list_count; /* LIST */
};

static const char *file;
static int line_number;
static int steps, failures;

static char folder[64];
static char path[80];
static fencepost_db *db;

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...) {
    va_list arguments;

    fprintf(stderr, "%s:%d: ", file, line_number);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

static void *must(void *memory) {
    if (memory == NULL) die("out of memory");
    return memory;
}

/* --- words --- */

/* Reads a string after its first quote, and moves the cursor behind it. */
static char *read_string(char **cursor) {
    char *from = *cursor;
    char *text = must(malloc(strlen(from) + 1));
    size_t length = 0;
    size_t times = 1;

    for (; *from != '"'; from++) {
        if (*from == '\0') die("a string without its end");
        if (*from != '\\') {
            text[length++] = *from;
            continue;
        }
        switch (*++from) {
        case 'n': text[length++] = '\n'; break;
        case 't': text[length++] = '\t'; break;
        case '"': case '\\': text[length++] = *from; break;
        default: die("\\%c is no escape", *from);
        }
    }
    from++;
    if (*from == '*') times = strtoul(from + 1, &from, 10);
    *cursor = from;

    char *repeated = must(malloc(length * times + 1));
    for (size_t index = 0; index < times; index++) memcpy(repeated + index * length, text, length);
    repeated[length * times] = '\0';
    free(text);
    return repeated;
}

static size_t read_words(char *line, struct word *words) {
    size_t count = 0;
    struct word *list = NULL;
    char *cursor = line;

    for (;;) {
        cursor += strspn(cursor, " ");
        if (*cursor == '\0') break;
        if (count == MAX_WORDS) die("too many words");
        if (*cursor == '"') {
            cursor++;
            char *text = read_string(&cursor);
            if (list != NULL) {
                list->list = must(realloc(list->list, (list->list_count + 1) * sizeof *list->list));
                list->list[list->list_count++] = text;
            } else {
                words[count++] = (struct word){.kind = TEXT, .text = text};
            }
            continue;
        }
        char *end = strchrnul(cursor, ' ');
        char *bare = must(strndup(cursor, (size_t)(end - cursor)));
        cursor = end;
        if (strcmp(bare, "[") == 0) {
            list = &words[count++];
            *list = (struct word){.kind = LIST};
            free(bare);
        } else if (strcmp(bare, "]") == 0) {
            list = NULL;
            free(bare);
        } else {
            if (list != NULL) die("%s in a list", bare);
            words[count++] = (struct word){.kind = BARE, .text = bare};
        }
    }
    if (list != NULL) die("a list without its end");
    return count;
}

static void free_words(struct word *words, size_t count) {
    for (size_t index = 0; index < count; index++) {
        for (size_t item = 0; item < words[index].list_count; item++) free(words[index].list[item]);
        free(words[index].list);
        free(words[index].text);
    }
}

static const char *text_of(const struct word *word) {
    if (word->kind != TEXT) die("a string is wanted");
    return word->text;
}

static const char *optional_of(const struct word *word) {
    return word->kind == BARE && strcmp(word->text, "null") == 0 ? NULL : text_of(word);
}

static double double_of(const struct word *word) {
    char *end;

    if (word->kind != BARE) die("a number is wanted");
    double number = strtod(word->text, &end);
    if (*end != '\0') die("%s is no number", word->text);
    return number;
}

static int boolean_of(const struct word *word) {
    if (word->kind == BARE && strcmp(word->text, "true") == 0) return 1;
    if (word->kind != BARE || strcmp(word->text, "false") != 0) die("true or false is wanted");
    return 0;
}

static int64_t integer_of(const struct word *word) {
    char *end;

    if (word->kind != BARE) die("a number is wanted");
    errno = 0;
    int64_t number = strtoimax(word->text, &end, 10);
    if (*end != '\0' || errno != 0) die("%s is no 64-bit integer", word->text);
    return number;
}

/* --- cases --- */

static void remove_files(void) {
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", "-fencepost"};
    char name[100];

    for (size_t index = 0; index < sizeof suffixes / sizeof *suffixes; index++) {
        snprintf(name, sizeof name, "%s%s", path, suffixes[index]);
        unlink(name);
    }
}

static void end_case(void) {
    fencepost_close(db);
    db = NULL;
    if (*folder != '\0') {
        remove_files();
        if (rmdir(folder) != 0) die("%s is not empty", folder);
        *folder = '\0';
    }
}

static void open_file(void) {
    fencepost_error error;

    if (fencepost_open(path, NULL, &db, &error) != FENCEPOST_OK) die("%s", error.message);
}

static void begin_case(void) {
    fencepost_error error;

    end_case();
    snprintf(folder, sizeof folder, "/tmp/fencepost-XXXXXX");
    if (mkdtemp(folder) == NULL) die("mkdtemp");
    snprintf(path, sizeof path, "%s/jobs.db", folder);
    open_file();
    if (fencepost_init_db(db, &error) != FENCEPOST_OK) die("%s", error.message);
}

/* What the sqlite3 command prints: another program, with another copy of SQLite. The caller frees it. */
static char *run_sql(const char *statement) {
    int ends[2];
    char *printed = NULL;
    size_t length = 0;
    int status;

    if (pipe(ends) != 0) die("pipe");
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp("sqlite3", "sqlite3", path, statement, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got = 1; got > 0; length += (size_t)got) {
        printed = must(realloc(printed, length + 4097));
        got = read(ends[0], printed + length, 4096);
        if (got < 0) die("read");
    }
    close(ends[0]);
    if (waitpid(child, &status, 0) < 0 || status != 0) die("the sqlite3 command failed");
    if (length > 0 && printed[length - 1] == '\n') length--;
    printed[length] = '\0';
    return printed;
}

/* --- steps --- */

/* Whether the expected words begin with this status; on OK there are `values` words more. */
static int answers(fencepost_status status, const struct word *expected, size_t count, size_t values) {
    const char *name = fencepost_status_name(status) + strlen("FENCEPOST_");
    size_t wanted = status == FENCEPOST_OK ? values + 1 : 1;

    if (count == wanted && expected[0].kind == BARE && strcmp(expected[0].text, name) == 0) return 1;
    printf("%s:%d: answered %s\n", file, line_number, name);
    return 0;
}

static int same_text(const char *given, const struct word *expected) {
    const char *wanted = optional_of(expected);

    return given == NULL || wanted == NULL ? given == wanted : strcmp(given, wanted) == 0;
}

static int right_job(const fencepost_job *job, const struct word *expected) {
    return same_text(job->id, &expected[0]) && same_text(job->owner, &expected[1]) &&
           job->until == double_of(&expected[2]) && job->fence == integer_of(&expected[3]) &&
           same_text(job->result, &expected[4]) && job->done == boolean_of(&expected[5]);
}

static int state(const struct word *a, const struct word *expected, size_t count) {
    fencepost_job *job;
    fencepost_status status = fencepost_state(db, text_of(&a[0]), &job, NULL);
    int right = answers(status, expected, count, 6) && (job == NULL || right_job(job, expected + 1));

    if ((status == FENCEPOST_OK) != (job != NULL)) die("the job is not as the status says");
    fencepost_job_free(job);
    return right;
}

static int claim_many(const struct word *a, const struct word *expected, size_t count) {
    int64_t *fences = must(calloc(a[1].list_count + 1, sizeof *fences));
    int64_t granted = 0;
    size_t grants = 0;
    fencepost_status status =
        fencepost_claim_many(db, text_of(&a[0]), (const char *const *)a[1].list, a[1].list_count, double_of(&a[2]),
                             double_of(&a[3]), fences, NULL);

    for (size_t index = 0; index < a[1].list_count; index++) {
        if (fences[index] != 0) {
            granted = fences[index];
            grants++;
        }
    }
    free(fences);
    if (!answers(status, expected, count, 1)) return 0;
    if (status != FENCEPOST_OK) return grants == 0;
    if (a[1].list_count == 0) return strcmp(expected[1].text, "none") == 0;
    return grants == 1 && granted == integer_of(&expected[1]);
}

/* Whether the words are the grants' ids and fences, in their order. */
static int right_grants(const fencepost_grant *const *grants, size_t grant_count, const struct word *expected) {
    for (size_t index = 0; index < grant_count; index++) {
        if (!same_text(grants[index]->id, &expected[2 * index])) return 0;
        if (grants[index]->fence != integer_of(&expected[2 * index + 1])) return 0;
    }
    return 1;
}

/* One grant or none. */
static int right_grant(fencepost_status status, fencepost_grant *grant, const struct word *expected, size_t count) {
    const fencepost_grant *const grants[] = {grant};
    int right = answers(status, expected, count, grant == NULL ? 1 : 2);

    if (status != FENCEPOST_OK && grant != NULL) die("a grant although it was refused");
    if (right && grant != NULL) right = right_grants(grants, 1, expected + 1);
    if (right && grant == NULL && status == FENCEPOST_OK) right = strcmp(expected[1].text, "none") == 0;
    fencepost_grant_free(grant);
    return right;
}

static int claim_batch(const struct word *a, const struct word *expected, size_t count) {
    fencepost_grants *grants;
    fencepost_status status = fencepost_claim_batch(db, text_of(&a[0]), double_of(&a[1]), double_of(&a[2]),
                                                    (size_t)integer_of(&a[3]), &grants, NULL);
    int right = answers(status, expected, count, grants == NULL ? 0 : 2 * grants->count);

    if ((status == FENCEPOST_OK) != (grants != NULL)) die("the grants are not as the status says");
    if (right && grants != NULL) right = right_grants(grants->grants, grants->count, expected + 1);
    fencepost_grants_free(grants);
    return right;
}

static int enqueue_many(const struct word *a, const struct word *expected, size_t count) {
    bool *added = must(calloc(a[0].list_count + 1, sizeof *added));
    fencepost_status status =
        fencepost_enqueue_many(db, (const char *const *)a[0].list, a[0].list_count, added, NULL);
    int right = answers(status, expected, count, a[0].list_count);

    for (size_t index = 0; right && index < a[0].list_count; index++) {
        right = added[index] == (status == FENCEPOST_OK && boolean_of(&expected[1 + index]));
    }
    free(added);
    return right;
}

static int32_t condition_of(const struct word *word) {
    static const char *const names[] = {"claimable", "held", "delayed", "done", "broken"};

    for (int32_t index = 0; index < 5; index++) {
        if (word->kind == BARE && strcmp(word->text, names[index]) == 0) return FENCEPOST_CONDITION_CLAIMABLE + index;
    }
    die("a condition is wanted");
}

static int list_jobs(const struct word *a, const struct word *expected, size_t count) {
    fencepost_jobs *jobs;
    fencepost_status status = fencepost_list(db, condition_of(&a[0]), double_of(&a[1]), optional_of(&a[2]),
                                             (size_t)integer_of(&a[3]), &jobs, NULL);
    int right = answers(status, expected, count, jobs == NULL ? 0 : jobs->count);

    if ((status == FENCEPOST_OK) != (jobs != NULL)) die("the jobs are not as the status says");
    for (size_t index = 0; right && jobs != NULL && index < jobs->count; index++) {
        right = same_text(jobs->jobs[index]->id, &expected[1 + index]);
    }
    fencepost_jobs_free(jobs);
    return right;
}

static int run_step(const char *step, const struct word *a, const struct word *expected, size_t count) {
    if (strcmp(step, "reopen") == 0) {
        fencepost_close(db);
        open_file();
        return 1;
    }
    if (strcmp(step, "sql") == 0) {
        char *printed = run_sql(text_of(&a[0]));
        int right = strcmp(printed, text_of(&expected[0])) == 0;

        if (!right) printf("%s:%d: printed %s\n", file, line_number, printed);
        free(printed);
        return right;
    }
    if (strcmp(step, "state") == 0) return state(a, expected, count);
    if (strcmp(step, "claim_many") == 0) return claim_many(a, expected, count);
    if (strcmp(step, "claim_batch") == 0) return claim_batch(a, expected, count);
    if (strcmp(step, "enqueue_many") == 0) return enqueue_many(a, expected, count);
    if (strcmp(step, "list") == 0) return list_jobs(a, expected, count);
    if (strcmp(step, "claim_next") == 0) {
        fencepost_grant *grant;
        fencepost_status status =
            fencepost_claim_next(db, text_of(&a[0]), double_of(&a[1]), double_of(&a[2]), &grant, NULL);

        return right_grant(status, grant, expected, count);
    }
    if (strcmp(step, "complete_and_claim_next") == 0) {
        fencepost_grant *grant;
        fencepost_status status = fencepost_complete_and_claim_next(
            db, text_of(&a[0]), text_of(&a[1]), integer_of(&a[2]), double_of(&a[3]), optional_of(&a[4]),
            double_of(&a[5]), &grant, NULL);

        return right_grant(status, grant, expected, count);
    }
    if (strcmp(step, "count") == 0) {
        uint64_t counted;
        fencepost_status status = fencepost_count(db, condition_of(&a[0]), double_of(&a[1]), &counted, NULL);

        return answers(status, expected, count, 1) &&
               counted == (status == FENCEPOST_OK ? (uint64_t)integer_of(&expected[1]) : 0);
    }
    if (strcmp(step, "purge") == 0) {
        uint64_t purged;
        fencepost_status status =
            fencepost_purge(db, double_of(&a[0]), (size_t)integer_of(&a[1]), &purged, NULL);

        return answers(status, expected, count, 1) &&
               purged == (status == FENCEPOST_OK ? (uint64_t)integer_of(&expected[1]) : 0);
    }
    if (strcmp(step, "force_release") == 0) {
        int64_t fence;
        fencepost_status status = fencepost_force_release(db, text_of(&a[0]), &fence, NULL);

        return answers(status, expected, count, 1) &&
               fence == (status == FENCEPOST_OK ? integer_of(&expected[1]) : 0);
    }
    if (strcmp(step, "claim") == 0) {
        int64_t fence;
        fencepost_status status =
            fencepost_claim(db, text_of(&a[0]), text_of(&a[1]), double_of(&a[2]), double_of(&a[3]), &fence, NULL);

        return answers(status, expected, count, 1) &&
               fence == (status == FENCEPOST_OK ? integer_of(&expected[1]) : 0);
    }

    fencepost_status status;
    if (strcmp(step, "init_db") == 0) {
        status = fencepost_init_db(db, NULL);
    } else if (strcmp(step, "requeue") == 0) {
        status = fencepost_requeue(db, text_of(&a[0]), NULL);
    } else if (strcmp(step, "raise_floor") == 0) {
        status = fencepost_raise_floor(db, integer_of(&a[0]), NULL);
    } else if (strcmp(step, "enqueue") == 0) {
        status = fencepost_enqueue(db, text_of(&a[0]), NULL);
    } else if (strcmp(step, "renew") == 0) {
        status = fencepost_renew(db, text_of(&a[0]), text_of(&a[1]), integer_of(&a[2]), double_of(&a[3]),
                                 double_of(&a[4]), NULL);
    } else if (strcmp(step, "complete") == 0) {
        status = fencepost_complete(db, text_of(&a[0]), text_of(&a[1]), integer_of(&a[2]), double_of(&a[3]),
                                    optional_of(&a[4]), NULL);
    } else if (strcmp(step, "enqueue_at") == 0) {
        status = fencepost_enqueue_at(db, text_of(&a[0]), double_of(&a[1]), NULL);
    } else if (strcmp(step, "release_at") == 0) {
        status = fencepost_release_at(db, text_of(&a[0]), text_of(&a[1]), integer_of(&a[2]), double_of(&a[3]), NULL);
    } else if (strcmp(step, "release") == 0) {
        status = fencepost_release(db, text_of(&a[0]), text_of(&a[1]), integer_of(&a[2]), NULL);
    } else {
        die("unknown step %s", step);
    }
    return answers(status, expected, count, 0);
}

static void run_line(char *line) {
    struct word words[MAX_WORDS + 1] = {{BARE, NULL, NULL, 0}};
    size_t count = read_words(line, words);
    size_t arrow = 0;

    if (count == 0 || words[0].kind != BARE) die("a line begins with a step");
    while (arrow < count && !(words[arrow].kind == BARE && strcmp(words[arrow].text, "=>") == 0)) arrow++;
    if (strcmp(words[0].text, "case") == 0) {
        begin_case();
    } else {
        size_t expected = arrow < count ? arrow + 1 : count;

        if (db == NULL) die("a case first");
        steps++;
        if (!run_step(words[0].text, words + 1, words + expected, count - expected)) {
            printf("%s:%d: %s\n", file, line_number, line);
            failures++;
        }
    }
    free_words(words, count);
}

int main(int count, char **arguments) {
    char *line = NULL;
    size_t room = 0;

    for (int index = 1; index < count; index++) {
        file = arguments[index];
        line_number = 0;
        FILE *stream = fopen(file, "r");
        if (stream == NULL) die("cannot be read");
        while (getline(&line, &room, stream) >= 0) {
            line_number++;
            line[strcspn(line, "\n")] = '\0';
            char *first = line + strspn(line, " ");
            if (*first != '\0' && *first != '#') run_line(first);
        }
        fclose(stream);
        end_case();
    }
    free(line);
    printf("%d passed, %d failed\n", steps - failures, failures);
    return failures > 0 || steps == 0;
}

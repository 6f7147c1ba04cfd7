#include "test.h"

#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77, SECONDS = 300 };

char folder[64];

const char TABLE[] = "CREATE TABLE jobs(id TEXT PRIMARY KEY, owner TEXT, until REAL NOT NULL DEFAULT 0, "
                     "fence INTEGER NOT NULL DEFAULT 0, result TEXT, done INTEGER NOT NULL DEFAULT 0)";

void fail(const char *file, int line, const char *format, ...) {
    va_list arguments;

    printf("%s:%d: ", file, line);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
    _exit(1);
}

void skip(const char *why) {
    printf("skipped: %s\n", why);
    fflush(stdout);
    _exit(SKIPPED);
}

void check_detail(const char *file, int line, fencepost_status status, const fencepost_error *error) {
    size_t length = strnlen(error->message, sizeof error->message);

    if (length == sizeof error->message) fail(file, line, "the message has no end");
    if ((length > 0) != (status != FENCEPOST_OK)) fail(file, line, "the message is \"%s\"", error->message);
    if (status >= 0 && error->sqlite_code != 0) fail(file, line, "the code is %d", error->sqlite_code);
    if (error->reserved[0] != 0 || error->reserved[1] != 0 || error->reserved[2] != 0) {
        fail(file, line, "reserved is not zero");
    }
}

void shell(const char *format, ...) {
    char command[4096];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command) != 0) fail(__FILE__, __LINE__, "failed: %s", command);
}

const char *sql(const char *file, const char *format, ...) {
    static char printed[65536];
    char statement[4096];
    char command[5000];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(statement, sizeof statement, format, arguments);
    va_end(arguments);
    snprintf(command, sizeof command, "sqlite3 '%s' \"%s\"", file, statement);
    FILE *stream = popen(command, "r");
    CHECK(stream != NULL);
    size_t length = fread(printed, 1, sizeof printed - 1, stream);
    if (pclose(stream) != 0) fail(__FILE__, __LINE__, "failed: %s", command);
    if (length > 0 && printed[length - 1] == '\n') length--;
    printed[length] = '\0';
    return printed;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

char *kept[200];
size_t kept_count;

char *snapshot(void) {
    struct dirent **entries;
    char *all = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&all, &length);
    int count = scandir(".", &entries, NULL, by_name);

    CHECK(out != NULL && count >= 0);
    for (int index = 0; index < count; index++) {
        const char *name = entries[index]->d_name;
        struct stat status;
        size_t end = strlen(name);

        /* What processes share in memory says nothing of what is stored. */
        bool data = !(end > 4 && strcmp(name + end - 4, "-shm") == 0);
        if (data) fprintf(out, "\n[%s]\n", name);
        data = data && !(end > 10 && strcmp(name + end - 10, "-fencepost") == 0);
        if (data && stat(name, &status) == 0 && S_ISREG(status.st_mode)) {
            FILE *in = fopen(name, "r");
            int byte;
            /* In hexadecimal, so that the whole has no NUL. */
            while (in != NULL && (byte = getc(in)) != EOF) fprintf(out, "%02x", (unsigned)byte);
            if (in != NULL) fclose(in);
        }
        free(entries[index]);
    }
    free(entries);
    fclose(out);
    /* Kept until the test ends. */
    CHECK(kept_count < sizeof kept / sizeof *kept);
    return kept[kept_count++] = all;
}

fencepost_db *open_ready(const char *path) {
    fencepost_db *db;
    fencepost_error error;

    ANSWERS(FENCEPOST_OK, fencepost_open(path, NULL, &db, &error));
    ANSWERS(FENCEPOST_OK, fencepost_init_db(db, &error));
    return db;
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *level) {
    (void)status, (void)kind, (void)level;
    return remove(path);
}

static int run_one(const struct test *test) {
    int status;

    snprintf(folder, sizeof folder, "/tmp/fencepost-XXXXXX");
    if (mkdtemp(folder) == NULL || chmod(folder, 0755) != 0) return 1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (chdir(folder) != 0) _exit(1);
        alarm(SECONDS);
        test->run();
        fflush(stdout);
        exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (WIFSIGNALED(status)) printf("ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run_tests(int count, char **arguments, const struct test *tests) {
    bool small = count > 1 && strcmp(arguments[1], "--small") == 0;
    const char *part = count > 1 && !small ? arguments[1] : "";
    int passed = 0, failed = 0, skipped = 0;

    for (; tests->name != NULL; tests++) {
        if (small && strncmp(tests->name, "large: ", 7) == 0) continue;
        if (strstr(tests->name, part) == NULL) continue;
        switch (run_one(tests)) {
        case 0: passed++; break;
        case SKIPPED: skipped++; printf("SKIPPED %s\n", tests->name); break;
        default: failed++; printf("FAILED %s\n", tests->name); break;
        }
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed > 0 || passed == 0;
}

/* See bench.h. */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* Waits are counted in classes that are 3 % wide: 32 to a power of two. */
enum { PER_OCTAVE = 32, CLASSES = 64 * PER_OCTAVE };

/* What a worker has measured, in memory that the processes share. */
struct record {
    int64_t done, steps, longest, spent;
    uint32_t waits[CLASSES];
};

struct shared {
    pthread_barrier_t ready;
    _Atomic int64_t start;
    struct record records[];
};

struct thread {
    struct worker worker;
    const struct load *load;
    struct shared *shared;
};

void stop(const char *format, ...) {
    va_list list;

    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    /* Others may be waiting at the barrier for this one: main ends them. */
    _exit(1);
}

int64_t nanoseconds(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void *allocate(size_t size) {
    void *memory = calloc(1, size);

    if (memory == NULL) stop("out of memory");
    return memory;
}

void job_id(char id[32], int64_t number) { snprintf(id, 32, "job-%04lld", (long long)number); }

static int class_of(int64_t wait) {
    if (wait < PER_OCTAVE) return (int)wait;
    int octave = 63 - __builtin_clzll((unsigned long long)wait);
    return (octave - 4) * PER_OCTAVE + (int)((wait >> (octave - 5)) & (PER_OCTAVE - 1));
}

/* The longest wait of a class. */
static int64_t longest_of(int class) {
    if (class < PER_OCTAVE) return class;
    int octave = class / PER_OCTAVE + 4;
    return ((int64_t)(PER_OCTAVE + class % PER_OCTAVE + 1) << (octave - 5)) - 1;
}

static void *work(void *argument) {
    struct thread *thread = argument;
    struct worker *worker = &thread->worker;
    const struct config *config = worker->config;
    struct shared *shared = thread->shared;
    struct record *record = &shared->records[worker->number];

    if (thread->load->begin != NULL) worker->own = thread->load->begin(worker);
    pthread_barrier_wait(&shared->ready);
    int64_t none = 0;
    atomic_compare_exchange_strong(&shared->start, &none, nanoseconds());
    const int64_t from = atomic_load(&shared->start) + (int64_t)(config->warmup * 1e9);
    const int64_t until = from + (int64_t)(config->seconds * 1e9);

    for (int64_t begun = nanoseconds(), over; begun < until; begun = over) {
        worker->timed = 0;
        int done = thread->load->step(worker);
        worker->steps++;
        over = nanoseconds();
        if (over < from) continue;
        /* A wait that reaches over either end of the time counts as one, or the longest would be those that do not; what
         * it was for counts only if it came in time. */
        int64_t wait = worker->timed != 0 ? worker->timed : over - begun;
        record->waits[class_of(wait)]++;
        if (wait > record->longest) record->longest = wait;
        record->steps++;
        record->spent += wait;
        if (over <= until) record->done += done;
    }
    if (thread->load->end != NULL) thread->load->end(worker);
    return NULL;
}

static void run_process(const struct program *program, const struct load *load, const struct config *config, int number,
                        struct shared *shared) {
    struct thread *threads = allocate(sizeof *threads * (size_t)config->threads);
    pthread_t *ids = allocate(sizeof *ids * (size_t)config->threads);
    void *process = program->begin_process(config, load->name);

    for (int i = 0; i < config->threads; i++) {
        struct worker *worker = &threads[i].worker;
        worker->config = config;
        worker->process = process;
        worker->number = number * config->threads + i;
        worker->count = config->processes * config->threads;
        snprintf(worker->name, sizeof worker->name, "worker-%d", worker->number);
        threads[i].load = load;
        threads[i].shared = shared;
        if (pthread_create(&ids[i], NULL, work, &threads[i]) != 0) stop("pthread_create failed");
    }
    for (int i = 0; i < config->threads; i++) pthread_join(ids[i], NULL);
    program->end_process(process);
    free(ids);
    free(threads);
}

static void print(const struct config *config, const struct shared *shared, int workers) {
    int64_t done = 0, steps = 0, spent = 0, longest = 0, least = INT64_MAX, most = 0;
    int64_t waits[CLASSES] = {0};

    for (int i = 0; i < workers; i++) {
        const struct record *record = &shared->records[i];
        done += record->done;
        steps += record->steps;
        spent += record->spent;
        if (record->longest > longest) longest = record->longest;
        if (record->done < least) least = record->done;
        if (record->done > most) most = record->done;
        for (int class = 0; class < CLASSES; class++) waits[class] += record->waits[class];
    }
    int64_t part = 0, half = 0, most_of_it = 0;
    for (int class = 0; class < CLASSES; class++) {
        part += waits[class];
        if (half == 0 && part * 2 >= steps) half = longest_of(class);
        if (most_of_it == 0 && part * 100 >= steps * 99) most_of_it = longest_of(class);
    }
    printf("rate=%.1f done=%lld mean_us=%.2f p50_us=%.1f p99_us=%.1f worst_ms=%.3f least=%lld most=%lld\n",
           (double)done / config->seconds, (long long)done, steps == 0 ? 0 : (double)spent / 1e3 / (double)steps,
           (double)half / 1e3, (double)most_of_it / 1e3, (double)longest / 1e6, (long long)least, (long long)most);
}

static void run(const struct program *program, const struct load *load, const struct config *config) {
    int workers = config->processes * config->threads;
    size_t size = sizeof(struct shared) + sizeof(struct record) * (size_t)workers;
    struct shared *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t between_processes;
    pid_t *children = allocate(sizeof *children * (size_t)config->processes);
    pid_t parent = getpid();
    bool failed = false;

    if (shared == MAP_FAILED) stop("mmap failed");
    pthread_barrierattr_init(&between_processes);
    pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->ready, &between_processes, (unsigned)workers);
    for (int i = 0; i < config->processes; i++) {
        children[i] = fork();
        if (children[i] < 0) stop("fork failed");
        if (children[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) _exit(1);
            run_process(program, load, config, i, shared);
            _exit(0);
        }
    }
    for (int left = config->processes; left > 0; left--) {
        int status;
        pid_t child = wait(&status);
        if (child < 0) stop("wait failed");
        for (int i = 0; i < config->processes; i++) {
            if (children[i] == child) children[i] = 0;
        }
        if (status == 0 || failed) continue;
        failed = true;
        for (int i = 0; i < config->processes; i++) {
            if (children[i] != 0) kill(children[i], SIGKILL);
        }
    }
    if (failed) stop("%s: a process failed", load->name);
    print(config, shared, workers);
    pthread_barrier_destroy(&shared->ready);
    munmap(shared, size);
    free(children);
}

static double number(const char *name, const char *text) {
    char *end;
    double value = text == NULL ? -1 : strtod(text, &end);

    if (text == NULL || *end != '\0' || value < 0) stop("%s needs a number", name);
    return value;
}

int bench_main(int count, char **arguments, const struct program *program) {
    struct config config = {.processes = 1, .threads = 1, .seconds = 1, .warmup = 0.2};

    if (count < 3) stop("usage: %s LOAD FILE [--normal] [--processes P] [--threads T] [--seconds S] [--warmup S]", arguments[0]);
    config.file = arguments[2];
    for (int i = 3; i < count; i++) {
        const char *name = arguments[i];
        if (strcmp(name, "--normal") == 0) {
            config.normal = true;
            continue;
        }
        double value = number(name, i + 1 < count ? arguments[i + 1] : NULL);
        i++;
        if (strcmp(name, "--processes") == 0) config.processes = (int)value;
        else if (strcmp(name, "--threads") == 0) config.threads = (int)value;
        else if (strcmp(name, "--seconds") == 0) config.seconds = value;
        else if (strcmp(name, "--warmup") == 0) config.warmup = value;
        else stop("what is %s?", name);
    }
    if (config.processes < 1 || config.threads < 1 || config.seconds <= 0) stop("a number is too small");
    /* Or a worker of `write` would come back to a job before its lease is over. */
    if (config.processes * config.threads > JOBS / 2) stop("these are too many workers");
    for (const struct load *load = program->loads; load->name != NULL; load++) {
        if (strcmp(load->name, arguments[1]) == 0) {
            run(program, load, &config);
            return 0;
        }
    }
    stop("%s: there is no such load", arguments[1]);
}

/*
 * Runs a program and kills or stops it at one moment: before or after one of the system calls by which it touches the
 * files in a folder.
 *
 *     tracer FOLDER WRITES MOMENT ACT PROGRAM ARGUMENT ...
 *
 * The moments are counted after so many write(2), which the program uses for what it tells alone: 0 is before the first
 * call, 1 after it, 2 before the second, and so on, whichever thread makes it. With MOMENT -1 they are counted only.
 *
 * ACT: "kill" ends the program with SIGKILL. "hold" does too, but says that it is held there, and waits for a line first.
 * "stop" lets go of it and stops it with SIGSTOP: in the call's stead when that can be interrupted, right after it
 * otherwise. Once it has stopped, that is said; after a line, or the end of the input, it goes on to its end.
 *
 * On its standard error it says, a line each: "at CALL" when the moment has come (with "hold" and "stop" once it is held
 * or stopped), and at the end "lived MOMENTS" or "killed". It exits with 3, and says how to allow it, when it may not
 * trace.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 64, NOT_ALLOWED = 3 };

/* Which argument says what the call is about. */
enum about { DESCRIPTOR, PATH, PATH_AT, MAPPED, SHARED_WORD };

static const struct call {
    long number;
    const char *name;
    enum about about;
    int argument;
} calls[] = {
/* The older calls are not there on arm64. */
#ifdef SYS_open
    {SYS_open, "open", PATH, 0},
#endif
#ifdef SYS_unlink
    {SYS_unlink, "unlink", PATH, 0},
#endif
    {SYS_openat, "openat", PATH_AT, 1},
    {SYS_unlinkat, "unlinkat", PATH_AT, 1},
    {SYS_close, "close", DESCRIPTOR, 0},
    {SYS_read, "read", DESCRIPTOR, 0},
    {SYS_pread64, "pread64", DESCRIPTOR, 0},
    {SYS_pwrite64, "pwrite64", DESCRIPTOR, 0},
    {SYS_fdatasync, "fdatasync", DESCRIPTOR, 0},
    {SYS_fsync, "fsync", DESCRIPTOR, 0},
    {SYS_ftruncate, "ftruncate", DESCRIPTOR, 0},
    {SYS_fallocate, "fallocate", DESCRIPTOR, 0},
    {SYS_fchmod, "fchmod", DESCRIPTOR, 0},
    {SYS_fchown, "fchown", DESCRIPTOR, 0},
    {SYS_fcntl, "fcntl", DESCRIPTOR, 0},
    {SYS_mmap, "mmap", MAPPED, 4},
    {SYS_futex, "futex", SHARED_WORD, 1},
};

static struct thread {
    pid_t id;
    const struct call *in; /* The call that it is in, when it is one of those. */
} threads[THREADS];

static char folder[PATH_MAX];
static pid_t program;

static _Noreturn void fail(const char *what) {
    perror(what);
    exit(1);
}

static _Noreturn void refuse(int error) {
    fprintf(stderr,
            "not allowed: ptrace: %s\n"
            "The kill tests trace their own children. Allow that: in a container with --cap-add=SYS_PTRACE (or a seccomp\n"
            "profile that lets ptrace through), on a machine with sysctl kernel.yama.ptrace_scope=1 or 0. It needs\n"
            "Linux 5.3 or newer.\n",
            strerror(error));
    if (program > 0) kill(program, SIGKILL);
    exit(NOT_ALLOWED);
}

static struct thread *thread_of(pid_t id) {
    struct thread *free_one = NULL;

    for (int i = 0; i < THREADS; i++) {
        if (threads[i].id == id) return &threads[i];
        if (threads[i].id == 0 && free_one == NULL) free_one = &threads[i];
    }
    if (free_one == NULL) abort();
    *free_one = (struct thread){.id = id};
    return free_one;
}

static bool is_in_folder(const char *path) {
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static bool leads_into_folder(int descriptor) {
    char link[64];
    char path[PATH_MAX] = "";

    if (descriptor < 0) return false;
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)program, descriptor);
    return readlink(link, path, sizeof path - 1) > 0 && is_in_folder(path);
}

static bool names_file_in_folder(uint64_t address) {
    char path[PATH_MAX] = "";
    ssize_t length;
    struct iovec here = {path, sizeof path - 1};
    struct iovec there = {(void *)(uintptr_t)address, sizeof path - 1};

    /* It reads as far as it can: behind the path there may be nothing. */
    length = process_vm_readv(program, &here, 1, &there, 1, 0);
    if (length < 0 && (errno == EPERM || errno == ENOSYS)) refuse(errno);
    return length > 0 && is_in_folder(path);
}

static const struct call *file_call(const struct __ptrace_syscall_info *info) {
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct call *call = &calls[i];
        uint64_t argument = info->entry.args[call->argument];
        bool found = false;

        if ((uint64_t)call->number != info->entry.nr) continue;
        switch (call->about) {
        case DESCRIPTOR:
        case MAPPED: found = leads_into_folder((int)argument); break;
        case PATH:
        case PATH_AT: found = names_file_in_folder(argument); break;
        case SHARED_WORD: found = (argument & FUTEX_PRIVATE_FLAG) == 0; break;
        }
        return found ? call : NULL;
    }
    return NULL;
}

static pid_t start(char **command) {
    pid_t child = fork();

    if (child < 0) fail("fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(NOT_ALLOWED);
        raise(SIGSTOP);
        execv(command[0], command);
        _exit(127);
    }
    return child;
}

static void await_line(void) {
    int byte;

    do byte = getchar();
    while (byte != EOF && byte != '\n');
}

static int end_of_program(long moments) {
    int status = 0;
    pid_t id;

    /* Its other threads as well: while one of them is traced and not waited for, the program does not end. */
    do id = waitpid(-1, &status, __WALL);
    while ((id < 0 && errno == EINTR) || (id > 0 && (id != program || WIFSTOPPED(status))));
    if (id < 0) fail("waitpid");
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "killed\n");
        return 0;
    }
    fprintf(stderr, "lived %ld\n", moments);
    return WEXITSTATUS(status);
}

static int kill_it(const char *call, bool hold) {
    fprintf(stderr, "at %s\n", call);
    if (hold) await_line();
    kill(program, SIGKILL);
    return end_of_program(0);
}

static int stop_it(const char *call) {
    int status;

    /* Pending, it takes effect as soon as the program is let go. The tests stop calls that start no thread. */
    kill(program, SIGSTOP);
    for (int i = 0; i < THREADS; i++) {
        if (threads[i].id != 0 && ptrace(PTRACE_DETACH, threads[i].id, NULL, NULL) != 0) fail("PTRACE_DETACH");
    }
    if (waitpid(program, &status, WUNTRACED) != program) fail("waitpid");
    if (!WIFSTOPPED(status)) {
        fprintf(stderr, "ended before it stopped\n");
        return 1;
    }
    fprintf(stderr, "at %s\n", call);
    await_line();
    kill(program, SIGCONT);
    return end_of_program(0);
}

static int trace(long writes, long moment, const char *act) {
    const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    long moments = 0;
    int status;

    if (waitpid(program, &status, 0) != program) fail("waitpid");
    if (!WIFSTOPPED(status)) refuse(EPERM);
    if (ptrace(PTRACE_SETOPTIONS, program, NULL, (void *)options) != 0) refuse(errno);
    thread_of(program);
    ptrace(PTRACE_SYSCALL, program, NULL, NULL);
    for (;;) {
        pid_t id = waitpid(-1, &status, __WALL);
        struct thread *thread;
        long signal = 0;

        if (id < 0) fail("waitpid");
        thread = thread_of(id);
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            thread->id = 0;
            if (id != program) continue;
            fprintf(stderr, WIFEXITED(status) ? "lived %ld\n" : "died %ld\n", moments);
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        }
        if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            struct __ptrace_syscall_info info = {0};
            const struct call *call = thread->in;

            if (ptrace(PTRACE_GET_SYSCALL_INFO, id, (void *)sizeof info, &info) <= 0) refuse(errno);
            if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
                if (info.entry.nr == SYS_write && writes > 0) writes--;
                call = thread->in = writes == 0 ? file_call(&info) : NULL;
            } else {
                thread->in = NULL;
            }
            if (call != NULL && moments++ == moment) {
                return strcmp(act, "stop") == 0 ? stop_it(call->name) : kill_it(call->name, strcmp(act, "hold") == 0);
            }
        } else if (WSTOPSIG(status) != SIGTRAP && WSTOPSIG(status) != SIGSTOP) {
            signal = WSTOPSIG(status);
        }
        if (ptrace(PTRACE_SYSCALL, id, NULL, (void *)signal) != 0 && errno != ESRCH) fail("ptrace");
    }
}

int main(int argc, char **argv) {
    if (argc < 6) return 2;
    setvbuf(stderr, NULL, _IOLBF, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (realpath(argv[1], folder) == NULL) fail(argv[1]);
    program = start(argv + 5);
    return trace(strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10), argv[4]);
}

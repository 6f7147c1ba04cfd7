/*
 * SQLite calls its "fcntl" as a variadic function, which stable Rust cannot define. This one takes the
 * arguments apart and hands the lock requests over.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

typedef int (*lock_function)(int fd, int command, struct flock *lock);
typedef int (*fcntl_function)(int fd, int command, ...);

fcntl_function sqlite_fcntl_with(lock_function given);

static lock_function take_lock;

static int sqlite_fcntl(int fd, int command, ...) {
    va_list arguments;
    int answer = -1;

    va_start(arguments, command);
    switch (command) {
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
        answer = take_lock(fd, command, va_arg(arguments, struct flock *));
        break;
    case F_GETFD:
        answer = fcntl(fd, F_GETFD);
        break;
    case F_SETFD:
        answer = fcntl(fd, F_SETFD, va_arg(arguments, int));
        break;
    default: /* SQLite's unix VFS has no other on Linux. */
        errno = EINVAL;
        break;
    }
    va_end(arguments);
    return answer;
}

fcntl_function sqlite_fcntl_with(lock_function given) {
    take_lock = given;
    return sqlite_fcntl;
}

/*
 * Preloaded into the tests: stops a thread in the sync of its commit, with the transaction's locks held, for as long as
 * a test likes. So a test can act at a moment that otherwise passes in a fraction of a millisecond.
 */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

void hold_next_sync(void);
void hold_until_reached(void);
void hold_let_go(void);

static atomic_int armed;
static sem_t reached;
static sem_t let_go;

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0 && errno == EINTR) {
    }
}

/* The next sync of this process stops. */
void hold_next_sync(void) { atomic_store(&armed, 1); }

/* Waits until it has. */
void hold_until_reached(void) { wait_for(&reached); }

void hold_let_go(void) { sem_post(&let_go); }

static void stop_if_armed(void) {
    if (atomic_exchange(&armed, 0) == 0) return;
    sem_post(&reached);
    wait_for(&let_go);
}

int fdatasync(int fd) {
    stop_if_armed();
    return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd) {
    stop_if_armed();
    return (int)syscall(SYS_fsync, fd);
}

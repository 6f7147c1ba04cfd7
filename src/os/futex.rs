//! Sleeping and waking on a word of shared memory (futex(2)).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::errno;

/// Sleeps until the word is woken, no longer than `time`, and not at all when it is not `seen` any more
/// (futex(2)). A signal may end it early. Whether it was woken.
pub(crate) fn wait(word: &AtomicU32, seen: u32, time: Duration) -> bool {
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    // SAFETY: the word and the time outlive the call, and the kernel only reads them. Without FUTEX_PRIVATE_FLAG
    // the word is found by its file, so other processes can wake it.
    if unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, seen, &raw const limit) == 0 }
    {
        return true;
    }
    if !matches!(errno(), libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT) {
        // A sandbox refuses the call. To come back at once would keep the processor busy for the whole wait.
        std::thread::sleep(time);
    }
    false
}

/// Wakes the one that has slept longest on the word, in whatever process; whether there was one.
pub(crate) fn wake_one(word: &AtomicU32) -> bool {
    // SAFETY: FUTEX_WAKE takes the word's address alone and touches no memory.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From now on the system refuses this thread a call, when its second argument is `second` (seccomp(2)).
    fn refuse(call: libc::c_long, second: u32, error: libc::c_int) {
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
        // Of `seccomp_data`: the call's number at 0, its second argument at 24.
        let mut steps = [
            step(LOAD, 0, 0, 0),
            step(IS, call as u32, 0, 3),
            step(LOAD, 24, 0, 0),
            step(IS, second, 0, 1),
            step(ANSWER, libc::SECCOMP_RET_ERRNO | error as u32, 0, 0),
            step(ANSWER, libc::SECCOMP_RET_ALLOW, 0, 0),
        ];
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the program and its steps outlive the calls, and the kernel only reads them.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
        }
    }

    #[test]
    fn where_futexes_are_refused_a_wait_takes_its_time() {
        for error in [libc::EPERM, libc::ENOSYS] {
            let waiter = std::thread::spawn(move || {
                let (word, time) = (AtomicU32::new(1), Duration::from_millis(20));
                refuse(libc::SYS_futex, libc::FUTEX_WAIT as u32, error);
                let begin = std::time::Instant::now();
                assert!(!wait(&word, 1, time));
                assert!(begin.elapsed() >= time);
            });
            waiter.join().unwrap();
        }
    }
}

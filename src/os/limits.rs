//! Whose process this is, and what it may have.

/// The number of this process's user, whose rights count for files.
pub(crate) fn user() -> libc::uid_t {
    // SAFETY: geteuid(2) has no preconditions.
    unsafe { libc::geteuid() }
}

/// How many descriptors this process may have.
pub(crate) fn descriptor_limit() -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes at most one `rlimit`, which is exclusively borrowed.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    limit.rlim_cur
}

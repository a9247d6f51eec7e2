//! Descriptors that were passed to this process.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::sync::Once;

const STANDARD: RawFd = 2;

/// Takes over descriptors that whoever started this process passed: once in its life. Raises `EBADF` for one that is not
/// open, standard, named twice, or this process' own: what that opens is closed over exec(2) from the first moment.
pub fn inherited(numbers: impl IntoIterator<Item = RawFd>) -> io::Result<Vec<OwnedFd>> {
    static TAKEN: Once = Once::new();
    let mut taken = Err(io::Error::other("descriptors are taken over once"));
    TAKEN.call_once(|| taken = numbers.into_iter().map(own).collect());
    taken
}

fn own(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD takes any number and touches no memory.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if number <= STANDARD || flags < 0 || flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: it is open, and not by this process, whose libraries open nothing without FD_CLOEXEC: nobody owns it yet.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: F_SETFD touches no memory; from now on the descriptor is one of this process' own.
    if unsafe { libc::fcntl(number, libc::F_SETFD, flags | libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::*;

    #[test]
    fn what_this_process_opened_or_nobody_did_is_not_taken_over_and_what_was_passed_is_once() {
        let mine = File::open("/dev/null").expect("open");
        let passed = File::open("/dev/null").expect("open");
        fcntl_setfd(&passed, FdFlags::empty()).expect("as over exec");
        let number = passed.into_raw_fd();
        for refused in [mine.as_raw_fd(), -1, 0, 2, i32::MAX] {
            let error = own(refused).expect_err("no passed descriptor");
            assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{refused}");
        }
        let taken = inherited([number]).expect("passed");
        assert_eq!(taken[0].as_raw_fd(), number);
        assert!(own(number).is_err(), "it has an owner");
        assert!(inherited([]).is_err(), "once");
    }
}

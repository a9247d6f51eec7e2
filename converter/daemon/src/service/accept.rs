//! What an accept(2) comes to, also where there is nothing left to accept with.

use std::io;
use std::time::Duration;

use tokio::time::sleep;

/// How long accepting pauses when there are no descriptors or no memory left: the kernel goes on to say that somebody
/// waits, and each try would fail at once.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Who came; nobody, after a pause, where there was nothing left to accept with.
pub async fn accepted<T>(accept: impl Future<Output = io::Result<T>>) -> Option<T> {
    match accept.await {
        Ok(came) => Some(came),
        Err(error) => {
            if lacks_resources(&error) {
                sleep(PAUSE).await;
            }
            None
        }
    }
}

/// Whether it is not this one connection that failed, but every one would.
pub fn lacks_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

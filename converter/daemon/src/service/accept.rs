//! The results of accept(2), and the pause when descriptors or memory run out.

use std::io;
use std::time::Duration;

use tokio::time::sleep;

/// How long accepting pauses on EMFILE or ENOMEM: the listener stays readable, and each attempt would fail at once.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Returns the accepted connection, or `None` after a pause on EMFILE or ENOMEM.
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

/// Whether every accept would fail, and not only this one.
pub fn lacks_resources(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

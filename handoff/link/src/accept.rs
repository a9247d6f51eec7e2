//! Accepts connections, also after errors.

use std::io;
use std::time::Duration;

use tokio::time::sleep;

/// After an error: without a free descriptor the next attempt would fail at once, too (accept(2), `EMFILE`).
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Repeats `accept` of a listener until it succeeds.
pub async fn accept_retrying<T, F: Future<Output = io::Result<T>>>(accept: impl Fn() -> F) -> T {
    loop {
        match accept().await {
            Ok(accepted) => return accepted,
            Err(_) => sleep(RETRY_DELAY).await,
        }
    }
}

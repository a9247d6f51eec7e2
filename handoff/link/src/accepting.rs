//! Who comes in, also where that fails for a while.

use std::io;
use std::time::Duration;

use tokio::time::sleep;

/// After an attempt that failed: without a descriptor the next one fails at once, too (accept(2), `EMFILE`).
const PAUSE: Duration = Duration::from_millis(100);

/// What `accept` of a listener gives, when it does.
pub async fn accepted<T, F: Future<Output = io::Result<T>>>(accept: impl Fn() -> F) -> T {
    loop {
        match accept().await {
            Ok(accepted) => return accepted,
            Err(_) => sleep(PAUSE).await,
        }
    }
}

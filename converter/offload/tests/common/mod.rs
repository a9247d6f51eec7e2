//! What tests of whole connections share.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Asks again until there is an answer, for ten seconds.
pub fn eventually<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "no answer in time");
        sleep(Duration::from_millis(2));
    }
}

/// So many bytes that tell where they belong, in whole words.
pub fn pattern(length: usize) -> Vec<u8> {
    let words = u32::try_from(length / 4).expect("a length");
    (0..words).flat_map(u32::to_be_bytes).collect()
}

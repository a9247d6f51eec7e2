//! Times on the command line.

use std::time::Duration;

/// A number of seconds that a measurement may take: up to a day.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (0.0..=86_400.0).contains(number))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "accepted: a number of seconds from 0 to 86400".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_times_that_can_go_by() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["-1", "nan", "inf", "1e9", "1s", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}

//! Date (RFC 9110 sections 5.6.7 and 6.6.1): IMF-fixdate from a clock that is passed in.

use std::time::{Duration, SystemTime};

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]; // 1970-01-01 was a Thursday
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];
const SECONDS_PER_DAY: u64 = 86_400;

/// Writes `Date: Sun, 06 Nov 1994 08:49:37 GMT` and a CRLF; a clock before 1970 counts as 1970.
pub(super) fn write_field(now: SystemTime, out: &mut Vec<u8>) {
    let seconds = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs();
    let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let (year, month, day) = civil(days);
    let weekday = DAYS[(days % 7) as usize];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let month = MONTHS[month];
    let text = format!(
        "Date: {weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT\r\n"
    );
    out.extend_from_slice(text.as_bytes());
}

/// Year, month from 0, day from 1 of a day since 1970-01-01, by walking years and months.
fn civil(mut days: u64) -> (u64, usize, u64) {
    let mut year = 1970;
    while days >= days_in(year) {
        days -= days_in(year);
        year += 1;
    }
    let mut month = 0;
    while days >= days_in_month(year, month) {
        days -= days_in_month(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn days_in(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u64, month: usize) -> u64 {
    const DAYS_IN_MONTH: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    DAYS_IN_MONTH[month] + u64::from(month == 1 && is_leap(year))
}

fn is_leap(year: u64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_dates_are_those_of_the_calendar() {
        let cases = [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), // RFC 9110 section 5.6.7
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_735_689_599, "Tue, 31 Dec 2024 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ];
        for (seconds, expected) in cases {
            let mut out = Vec::new();
            write_field(
                SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
                &mut out,
            );
            assert_eq!(
                String::from_utf8(out).unwrap(),
                format!("Date: {expected}\r\n")
            );
        }
    }
}

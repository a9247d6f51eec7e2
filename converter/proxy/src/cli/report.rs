//! The status as a person reads it. Pure.

use std::collections::HashMap;
use std::fmt::Write;

use crate::kernel::netstat::MptcpCounters;
use crate::observe::ConnectionStatus;
use crate::server::Status;

/// Bits per second of connections, by their ids: up and down.
pub type Rates = HashMap<u64, (f64, f64)>;

/// The rates between two statuses, `seconds` apart.
pub fn rates(before: &Status, now: &Status) -> Rates {
    let seconds = now.uptime_seconds - before.uptime_seconds;
    let earlier: HashMap<u64, &ConnectionStatus> = before.connections.iter().map(|seen| (seen.id, seen)).collect();
    let rate = |now: u64, then: u64| bits(now.saturating_sub(then)) / seconds;
    let of = |seen: &ConnectionStatus| {
        let then = earlier.get(&seen.id);
        let (up, down) = then.map_or((0, 0), |then| (then.up_bytes, then.down_bytes));
        (seen.id, (rate(seen.up_bytes, up), rate(seen.down_bytes, down)))
    };
    if seconds > 0.0 {
        now.connections.iter().map(of).collect()
    } else {
        Rates::new()
    }
}

#[allow(clippy::cast_precision_loss)] // for display
fn bits(bytes: u64) -> f64 {
    bytes as f64 * 8.0
}

/// Some lines on the whole, one for each listener, and one for each of the `most` first connections; with rates where
/// they are known.
pub fn text(status: &Status, rates: Option<&Rates>, most: usize) -> String {
    let mut out = String::new();
    let state = if status.draining { "draining" } else { "serving" };
    let up = duration(status.uptime_seconds);
    let buffered = size(status.buffered_bytes as u64);
    // A String takes everything.
    let _ = writeln!(
        out,
        "{state}, {} of {} connections, {buffered} buffered; up {up}, pid {}, version {}\n",
        status.open_connections, status.most_connections, status.pid, status.version
    );
    let _ = writeln!(out, "{:<32} {:>10} {:>10} {:>10}", "LISTENER", "ACCEPTED", "UP", "DOWN");
    for listener in &status.listeners {
        let plain = if listener.mptcp { "" } else { " (plain TCP)" };
        let name = format!("{}{plain}", listener.name);
        let (up, down) = (size(listener.up_bytes), size(listener.down_bytes));
        let _ = writeln!(out, "{name:<32} {:>10} {up:>10} {down:>10}", listener.accepted);
    }
    if !status.connections.is_empty() {
        connections(status, rates, most, &mut out);
    }
    if status.kernel_mptcp.tell_of_wrong_bytes() {
        kernel(&status.kernel_mptcp, &mut out);
    }
    out
}

/// Only where it is bad news; the doctor knows what to do.
fn kernel(counters: &MptcpCounters, out: &mut String) {
    let _ = writeln!(
        out,
        "\nthe kernel met MPTCP data that did not fit {} times, and with a wrong checksum {} times: tributary-doctor --only integrity",
        counters.dss_not_matching, counters.data_checksum_errors
    );
}

fn connections(status: &Status, rates: Option<&Rates>, most: usize, out: &mut String) {
    let units = if rates.is_some() {
        ("UP/s", "DOWN/s")
    } else {
        ("UP", "DOWN")
    };
    let _ = writeln!(
        out,
        "\n{:<24} {:<32} {:>8} {:>10} {:>10}",
        "CLIENT", "SERVER", "AGE", units.0, units.1
    );
    let mut shown: Vec<&ConnectionStatus> = status.connections.iter().collect();
    if let Some(rates) = rates {
        let of = |seen: &ConnectionStatus| rates.get(&seen.id).map_or(0.0, |(up, down)| up + down);
        shown.sort_by(|one, other| of(other).total_cmp(&of(one)));
    }
    for seen in shown.into_iter().take(most) {
        let (up, down) = match rates.and_then(|rates| rates.get(&seen.id)) {
            Some((up, down)) => (rate(*up), rate(*down)),
            None => (size(seen.up_bytes), size(seen.down_bytes)),
        };
        let age = duration(seen.seconds);
        let _ = writeln!(
            out,
            "{:<24} {:<32} {age:>8} {up:>10} {down:>10}",
            seen.client, seen.target
        );
    }
}

fn size(bytes: u64) -> String {
    #[allow(clippy::cast_precision_loss)] // for display
    scaled(bytes as f64, &["B", "kB", "MB", "GB", "TB", "PB"])
}

fn rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, &["bit", "kbit", "Mbit", "Gbit", "Tbit"])
}

fn scaled(number: f64, units: &[&str]) -> String {
    let mut number = number;
    let mut units = units.iter();
    let mut unit = units.next().unwrap_or(&"");
    while number >= 999.95 {
        let Some(next) = units.next() else { break };
        number /= 1000.0;
        unit = next;
    }
    format!("{number:.1} {unit}")
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 60.0 => format!("{s:.0}s"),
        s if s < 3600.0 => format!("{:.0}m", s / 60.0),
        s if s < 86_400.0 => format!("{:.1}h", s / 3600.0),
        s => format!("{:.1}d", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ListenerStatus;

    fn status(uptime_seconds: f64, up_bytes: u64) -> Status {
        let client = "10.0.0.2:4000".parse().expect("address");
        let address = "10.0.0.1:3128".parse().expect("address");
        Status {
            version: "1".into(),
            pid: 7,
            uptime_seconds,
            draining: false,
            open_connections: 1,
            most_connections: 100,
            buffered_bytes: 0,
            log_lines_dropped: 0,
            kernel_mptcp: MptcpCounters::default(),
            listeners: vec![ListenerStatus {
                name: "web".into(),
                kind: "http".into(),
                address,
                mptcp: false,
                accepted: 3,
                up_bytes: 1_500,
                down_bytes: 2_000_000,
            }],
            connections: vec![ConnectionStatus {
                id: 1,
                listener: "web".into(),
                client,
                target: "example.org:443".into(),
                seconds: 90.0,
                up_bytes,
                down_bytes: 0,
            }],
        }
    }

    #[test]
    fn a_status_shows_listeners_and_connections() {
        let text = text(&status(10.0, 1000), None, 10);
        for part in [
            "serving, 1 of 100",
            "web (plain TCP)",
            "1.5 kB",
            "2.0 MB",
            "10.0.0.2:4000",
            "example.org:443",
            "2m",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn the_kernels_counters_are_told_where_they_tell_of_wrong_bytes() {
        let mut seen = status(10.0, 1000);
        seen.kernel_mptcp.retransmissions = 9;
        assert!(!text(&seen, None, 10).contains("kernel"));
        seen.kernel_mptcp.dss_not_matching = 3;
        assert!(text(&seen, None, 10).contains("did not fit 3 times"));
    }

    #[test]
    fn an_older_converters_status_without_them_is_read() {
        let mut document = serde_json::to_value(status(10.0, 1000)).expect("value");
        let fields = document.as_object_mut().expect("object");
        assert!(fields.remove("kernel_mptcp").is_some());
        let read: Status = serde_json::from_value(document).expect("status");
        assert_eq!(read, status(10.0, 1000));
    }

    #[test]
    fn rates_are_what_moved_between_two_statuses() {
        let (before, now) = (status(10.0, 1000), status(12.0, 251_000));
        let rates = rates(&before, &now);
        assert_eq!(rates[&1], (1_000_000.0, 0.0));
        assert!(text(&now, Some(&rates), 10).contains("1.0 Mbit"));
    }

    #[test]
    fn numbers_keep_their_width() {
        assert_eq!([size(999), size(1000), size(999_950)], ["999.0 B", "1.0 kB", "1.0 MB"]);
    }
}

//! `top`: the status, refreshed every second.

use std::io::{self, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::cli::report;
use crate::failure::Failure;
use crate::service::ask;

const INTERVAL: Duration = Duration::from_secs(1);
/// Back to the first line, clearing to the end of the screen after it was written (ECMA-48).
const HOME: &str = "\x1b[H";
const CLEAR_LINE: &str = "\x1b[K\n";
const CLEAR_REST: &str = "\x1b[J";
/// Without a terminal to ask.
const LINES: usize = 24;
/// Above the connections.
const ABOVE: usize = 6;

/// Shows until the converter ends, or Ctrl-C.
pub fn top(socket: &Path) -> Result<(), Failure> {
    let mut before = ask(socket)?;
    print!("\x1b[2J");
    loop {
        sleep(INTERVAL);
        let now = ask(socket)?;
        let rates = report::rates(&before, &now);
        let room = lines().saturating_sub(ABOVE + now.listeners.len()).max(1);
        let text = report::text(&now, Some(&rates), room);
        let screen = format!("{HOME}{}{CLEAR_REST}", text.replace('\n', CLEAR_LINE));
        let shown = io::stdout()
            .write_all(screen.as_bytes())
            .and_then(|()| io::stdout().flush());
        if shown.is_err() {
            return Ok(());
        }
        before = now;
    }
}

fn lines() -> usize {
    rustix::termios::tcgetwinsize(io::stdout()).map_or(LINES, |size| usize::from(size.ws_row))
}

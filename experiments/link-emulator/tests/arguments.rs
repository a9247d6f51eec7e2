//! Exit codes and messages of runs that end before anything is forwarded. None needs privileges.

use std::process::{Command, Output};

const SPEC: &str = "rate=1mbit";

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_link-emulator"))
        .args(arguments)
        .output()
        .unwrap()
}

fn link<'a>(a: &'a str, b: &'a str, a_to_b: &'a str, b_to_a: &'a str) -> Vec<&'a str> {
    vec!["--a", a, "--b", b, "--a-to-b", a_to_b, "--b-to-a", b_to_a]
}

fn assert_refused(arguments: &[&str], exit_code: i32, parts: &[&str]) {
    let output = run(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = message.lines().collect();
    assert_eq!(output.status.code(), Some(exit_code), "{message}");
    assert_eq!(lines.len(), 1, "{message}");
    for part in parts {
        assert!(lines[0].contains(part), "{part:?} is not in {message}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn a_bad_value_is_refused_with_option_key_value_and_accepted_form() {
    let arguments = link("x", "y", SPEC, "rate=1mbit,delay=5");
    let parts = ["--b-to-a", "\"delay\"", "\"5\"", "0ms to 60s: a number and us, ms or s"];
    assert_refused(&arguments, 64, &parts);
}

#[test]
fn an_unknown_key_is_refused() {
    let arguments = link("x", "y", "rate=1mbit,mtu=9", SPEC);
    let parts = ["--a-to-b", "\"mtu\"", "rate, trace, delay, jitter, loss, queue"];
    assert_refused(&arguments, 64, &parts);
}

#[test]
fn missing_options_are_named() {
    assert_refused(
        &["--a", "x"],
        64,
        &["--b <IFACE>", "--a-to-b <SPEC>", "--b-to-a <SPEC>"],
    );
}

#[test]
fn a_bad_seed_is_refused() {
    let mut arguments = link("x", "y", SPEC, SPEC);
    arguments.extend(["--seed", "many"]);
    assert_refused(&arguments, 64, &["--seed", "many"]);
}

#[test]
fn an_unknown_option_is_refused() {
    assert_refused(&["--mtu", "9"], 64, &["--mtu"]);
}

#[test]
fn one_interface_for_both_ends_is_refused() {
    assert_refused(&link("x", "x", SPEC, SPEC), 64, &["--a", "--b", "\"x\""]);
}

#[test]
fn a_missing_interface_is_unavailable() {
    let arguments = link("no-such-if", "lo", SPEC, SPEC);
    assert_refused(&arguments, 69, &["--a", "no-such-if"]);
}

#[test]
fn help_goes_to_stdout() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("--a-to-b <SPEC>"));
}

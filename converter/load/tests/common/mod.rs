//! The program as a user runs it, on loopback.
#![allow(dead_code)] // each test uses some of it

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

/// A server that ends with the test.
pub struct Server {
    child: Child,
    pub address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

/// `words` are the arguments, with blanks between them.
pub fn program(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tributary-load"));
    command
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub fn run(words: &str) -> Output {
    program(words).output().expect("the program runs")
}

pub fn told(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("one JSON object: {output:?}"))
}

pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Starts a server, which gets an address of its own to listen on.
pub fn serve(words: &str) -> Server {
    serve_at(free_address(), words)
}

pub fn serve_at(address: String, words: &str) -> Server {
    let mut child = program(&format!("{words} --listen {address}"))
        .spawn()
        .expect("the program starts");
    assert_eq!(next(&mut lines(&mut child)), "ready");
    Server { child, address }
}

fn listener() -> (String, TcpListener) {
    let listener = TcpListener::bind("127.2.0.2:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound").to_string();
    (address, listener)
}

/// A server that takes one connection and does this with it; and its address.
pub fn serving<T: Send + 'static>(serve: impl FnOnce(TcpStream) -> T + Send + 'static) -> (String, JoinHandle<T>) {
    let (address, listener) = listener();
    let served = thread::spawn(move || serve(listener.accept().expect("a client").0));
    (address, served)
}

/// The address of a server that does this with each connection, in a thread.
pub fn serving_all(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let (address, listener) = listener();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(client));
        }
    });
    address
}

pub fn lines(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().expect("its output is a pipe"))
}

pub fn next(lines: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).expect("its output can be read");
    line.trim_end().to_owned()
}

/// On an address of loopback that nobody else gets, so that no other test's client takes the port meanwhile.
pub fn free_address() -> String {
    static GIVEN: AtomicU16 = AtomicU16::new(1);
    let [high, low] = GIVEN.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let second = 1 + u8::try_from(std::process::id() % 100).expect("small");
    let host = Ipv4Addr::new(127, second, high, low);
    let listener = TcpListener::bind((host, 0)).expect("a port is free");
    listener.local_addr().expect("it is bound").to_string()
}

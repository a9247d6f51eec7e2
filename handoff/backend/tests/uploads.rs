//! Uploads to a back end that serves a folder: none unless they are allowed, and none that is too large.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use handoff_backend::{Objects, serve_plain};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(20);

const ALLOWED: Option<u64> = Some(10);

/// An empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("made");
    folder
}

/// The head of what a request gets.
async fn head(objects: &Arc<Objects>, request: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    let (_draining, drain_signal) = watch::channel(false);
    let serving = tokio::spawn(serve_plain(listener, Arc::clone(objects), 1, SOON, drain_signal));
    let mut client = TcpStream::connect(address).await.expect("connected");
    client.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let read = timeout(SOON, client.read_u8()).await;
        answer.push(read.expect("in time").expect("an answer"));
    }
    serving.abort();
    String::from_utf8_lossy(&answer).into_owned()
}

async fn status(objects: &Arc<Objects>, request: &str) -> String {
    head(objects, request).await[9..12].to_owned()
}

fn put(fields: &str, content: &str) -> String {
    format!("PUT /object HTTP/1.1\r\nHost: x\r\n{fields}\r\n\r\n{content}")
}

#[tokio::test]
async fn nobody_uploads_anything_unless_it_is_allowed() {
    let folder = folder("no-uploads");
    let objects = Arc::new(Objects::below(&folder, None).expect("opened"));
    assert_eq!(status(&objects, &put("Content-Length: 1", "1")).await, "405");
    assert_eq!(std::fs::read_dir(&folder).expect("read").count(), 0);
    std::fs::remove_dir_all(folder).expect("removed");
}

#[tokio::test]
async fn nothing_is_left_of_an_upload_that_is_too_large() {
    let folder = folder("large-uploads");
    let objects = Arc::new(Objects::below(&folder, ALLOWED).expect("opened"));
    for (fields, content, expected, names) in [
        ("Content-Length: 11", "", "413", 0),
        ("Content-Length: 11\r\nExpect: 100-continue", "", "413", 0),
        (
            "Transfer-Encoding: chunked",
            "6\r\n123456\r\n5\r\n12345\r\n0\r\n\r\n",
            "413",
            0,
        ),
        ("Content-Length: 10", "1234567890", "201", 1),
        ("Content-Length: 10", "0123456789", "200", 1),
    ] {
        assert_eq!(status(&objects, &put(fields, content)).await, expected, "{fields}");
        assert_eq!(std::fs::read_dir(&folder).expect("read").count(), names, "{fields}");
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

/// As a client goes on with an upload that broke off.
#[tokio::test]
async fn a_part_of_an_object_does_not_take_its_place() {
    let folder = folder("parts");
    let objects = Arc::new(Objects::below(&folder, ALLOWED).expect("opened"));
    assert_eq!(status(&objects, &put("Content-Length: 2", "01")).await, "201");
    let part = put("Content-Length: 1\r\nContent-Range: bytes 1-1/2", "1");
    assert_eq!(status(&objects, &part).await, "400");
    assert_eq!(std::fs::read(folder.join("object")).expect("read"), b"01");
    std::fs::remove_dir_all(folder).expect("removed");
}

#[tokio::test]
async fn who_asks_by_a_method_that_is_not_served_is_told_which_are() {
    let folder = folder("methods");
    for (largest, allowed) in [(None, "GET, HEAD"), (ALLOWED, "GET, HEAD, PUT")] {
        let objects = Arc::new(Objects::below(&folder, largest).expect("opened"));
        let answer = head(&objects, "DELETE /object HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(answer.contains(&format!("\r\nAllow: {allowed}\r\n")), "{answer}");
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

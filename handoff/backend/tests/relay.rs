//! A back end that relays: both directions at the same time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handoff_backend::{Relay, serve_plain};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// Far more than the sockets' buffers.
const LARGE: usize = 50_000_000;
/// Far less than any time-out.
const SOON: Duration = Duration::from_secs(20);

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A client of a relay to `server`.
async fn client_of(server: SocketAddr) -> TcpStream {
    client_of_relay(Relay::to(server, false)).await
}

async fn client_of_relay(relay: Relay) -> TcpStream {
    let (listener, address) = listener().await;
    let (draining, drain_signal) = watch::channel(false);
    tokio::spawn(async move {
        serve_plain(listener, Arc::new(relay), 10, 3 * SOON, drain_signal).await;
        drop(draining);
    });
    TcpStream::connect(address).await.expect("connected")
}

/// Reads until the end of a head; returns the bytes after it.
async fn past_head(stream: &mut TcpStream) -> Vec<u8> {
    let mut read = Vec::new();
    loop {
        let count = stream.read_buf(&mut read).await.expect("more");
        assert!(count > 0, "{}", String::from_utf8_lossy(&read));
        let end = read.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(end) = end {
            return read.split_off(end + 4);
        }
    }
}

fn upload() -> String {
    format!("PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: {LARGE}\r\n\r\n")
}

#[tokio::test]
async fn an_answer_before_the_uploads_end_comes_at_once_though_the_server_reads_no_more() {
    let (listener, server) = listener().await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        past_head(&mut stream).await;
        // All buffers are full by now.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer).await.expect("sent");
        stream
    });
    let (mut answers, mut requests) = client_of(server).await.into_split();
    let uploading = tokio::spawn(async move {
        requests.write_all(upload().as_bytes()).await.expect("sent");
        // It ends when the response is there.
        let _ = requests.write_all(&vec![7; LARGE]).await;
    });
    let mut answer = [0; 12];
    let read = timeout(SOON, answers.read_exact(&mut answer)).await;
    read.expect("in time").expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 413");
    drop((serving.await, answers));
    uploading.await.expect("no panic");
}

#[tokio::test]
async fn an_upload_and_its_answer_that_come_at_the_same_time_are_whole() {
    let (listener, server) = listener().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        let rest = past_head(&mut stream).await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.expect("sent");
        stream.write_all(&rest).await.expect("sent");
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.expect("copied");
    });
    let pattern = (0..251).flat_map(|each| [each; 251]).cycle();
    let body: Vec<u8> = pattern.take(LARGE).collect();
    let sent = body.clone();
    let (mut answers, mut requests) = client_of(server).await.into_split();
    let uploading = tokio::spawn(async move {
        requests.write_all(upload().as_bytes()).await.expect("sent");
        requests.write_all(&sent).await.expect("sent");
        requests
    });
    let mut answer = Vec::with_capacity(LARGE + 1000);
    let whole = async {
        while answer.len() < LARGE || !answer.ends_with(&body[LARGE - 1000..]) {
            assert!(answers.read_buf(&mut answer).await.expect("more") > 0);
        }
    };
    timeout(SOON, whole).await.expect("in time");
    assert!(answer.ends_with(&body), "not a byte wrong");
    drop(uploading.await);
}

#[tokio::test]
async fn an_end_that_changes_the_protocol_has_all_passed_on_until_both_ends_have_ended() {
    let (listener, server) = listener().await;
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        let rest = past_head(&mut stream).await;
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nfirst ";
        stream.write_all(answer).await.expect("sent");
        stream.write_all(&rest).await.expect("sent");
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.expect("copied");
    });
    let mut client = client_of(server).await;
    let request = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ";
    client.write_all(request).await.expect("sent");
    let mut echoed = past_head(&mut client).await;
    client.write_all(b"late").await.expect("sent");
    client.shutdown().await.expect("ended");
    let read = timeout(SOON, client.read_to_end(&mut echoed)).await;
    read.expect("in time").expect("whole");
    assert_eq!(echoed, b"first early late");
}

const BEFORE_RESET: usize = 400_000;

/// Sends an answer of this `head`, and resets once all of it was taken.
async fn serve_and_reset(listener: TcpListener, head: &str) {
    let (mut stream, _) = listener.accept().await.expect("accepted");
    past_head(&mut stream).await;
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(&vec![7; BEFORE_RESET]).await.expect("sent");
    while tributary_sys::unacknowledged(&stream).expect("a socket") > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("set");
}

#[tokio::test]
async fn what_came_before_a_reset_of_the_server_gets_to_a_slow_client() {
    let upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n";
    let cut_short = "HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n";
    for (head, talks) in [(cut_short, false), (upgraded, false), (upgraded, true)] {
        let (listener, server) = listener().await;
        let mut client = client_of(server).await;
        let request = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n";
        client.write_all(request).await.expect("sent");
        serve_and_reset(listener, head).await;
        if talks {
            for _ in 0..3 {
                client.write_all(b"anybody?").await.expect("taken");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut came = past_head(&mut client).await;
        let end = timeout(SOON, client.read_to_end(&mut came)).await.expect("in time");
        assert_eq!((came.len(), end.is_err()), (BEFORE_RESET, true), "{head} {talks}");
    }
}

/// Sends an answer of this `head` until nobody takes more of it, and resets.
async fn serve_until_blocked_and_reset(listener: TcpListener, head: &str) {
    let (mut stream, _) = listener.accept().await.expect("accepted");
    past_head(&mut stream).await;
    stream.write_all(head.as_bytes()).await.expect("sent");
    let content = vec![7; LARGE];
    let blocked = timeout(Duration::from_millis(300), stream.write_all(&content));
    blocked.await.expect_err("the client reads nothing");
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("set");
}

/// The client's bytes meet the reset before what came from the server has been read.
#[tokio::test]
async fn a_protocol_that_the_server_breaks_off_has_no_end_for_a_client_that_talks() {
    let (listener, server) = listener().await;
    let mut client = client_of(server).await;
    let request = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n";
    client.write_all(request).await.expect("sent");
    let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n";
    serve_until_blocked_and_reset(listener, head).await;
    client.write_all(b"anybody?").await.expect("taken");
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut came = past_head(&mut client).await;
    let end = timeout(SOON, client.read_to_end(&mut came)).await.expect("in time");
    assert!(!came.is_empty() && end.is_err(), "{}", came.len());
}

/// The write that waits takes the reset's error, and the read behind it says that there is no more.
#[tokio::test]
async fn an_answer_that_the_server_breaks_off_in_the_midst_of_an_upload_has_no_end() {
    let (listener, server) = listener().await;
    let (mut answers, mut requests) = client_of(server).await.into_split();
    let uploading = tokio::spawn(async move {
        requests.write_all(upload().as_bytes()).await.expect("sent");
        // The answer breaks off meanwhile.
        let _ = requests.write_all(&vec![7; LARGE]).await;
    });
    serve_until_blocked_and_reset(listener, "HTTP/1.1 413 Content Too Large\r\n\r\n").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut came = Vec::new();
    let end = timeout(SOON, answers.read_to_end(&mut came)).await.expect("in time");
    assert!(came.starts_with(b"HTTP/1.1 413") && end.is_err(), "{}", came.len());
    uploading.await.expect("no panic");
}

/// Bytes follow an urgent one at once, and none later that would make up for a short read.
#[tokio::test]
async fn urgent_data_are_passed_on_in_their_place_and_hold_nothing_back() {
    fn send(stream: &TcpStream) {
        let socket = SockRef::from(stream);
        socket.send(b"abc").expect("sent");
        socket.send_out_of_band(b"..X").expect("sent");
        socket.send(b"def").expect("sent");
    }
    let (listener, server) = listener().await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        let mut heard = past_head(&mut stream).await;
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n";
        stream.write_all(answer).await.expect("sent");
        send(&stream);
        while heard.len() < 9 {
            assert!(stream.read_buf(&mut heard).await.expect("more") > 0);
        }
        heard
    });
    let mut client = client_of(server).await;
    let request = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: any\r\n\r\n";
    client.write_all(request).await.expect("sent");
    let mut heard = past_head(&mut client).await;
    send(&client);
    let all = async {
        while heard.len() < 9 {
            assert!(client.read_buf(&mut heard).await.expect("more") > 0);
        }
        serving.await.expect("no panic")
    };
    let up = timeout(SOON, all).await.expect("in time");
    assert_eq!((&heard[..], &up[..]), (&b"abc..Xdef"[..], &b"abc..Xdef"[..]));
}

#[tokio::test]
async fn a_server_that_is_to_know_its_clients_hears_of_each_before_its_requests() {
    let (listener, server) = listener().await;
    let mut client = client_of_relay(Relay::to(server, true)).await;
    let [here, there] = [client.local_addr(), client.peer_addr()].map(|end| end.expect("an end"));
    let request = b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n";
    client.write_all(request).await.expect("sent");
    let (mut stream, _) = listener.accept().await.expect("accepted");
    let mut line = vec![];
    while !line.ends_with(b"\r\n") {
        line.push(stream.read_u8().await.expect("more"));
    }
    let (from, to) = (here.port(), there.port());
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {from} {to}\r\n");
    assert_eq!(String::from_utf8_lossy(&line), expected);
    for _ in 0..2 {
        past_head(&mut stream).await;
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        stream.write_all(answer).await.expect("sent");
        past_head(&mut client).await;
        // The same connection has no second line.
        client.write_all(request).await.expect("sent");
    }
}

/// The server may end it at the same moment.
#[tokio::test]
async fn what_must_not_be_sent_twice_takes_no_connection_that_has_rested() {
    let ask = |method: &str| format!("{method} /x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    let (listener, server) = listener().await;
    let mut client = client_of(server).await;
    client.write_all(ask("GET").as_bytes()).await.expect("sent");
    let (mut first, _) = listener.accept().await.expect("accepted");
    for next in ["GET", "POST"] {
        past_head(&mut first).await;
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        first.write_all(answer).await.expect("sent");
        past_head(&mut client).await;
        tokio::time::sleep(Duration::from_millis(1100)).await;
        client.write_all(ask(next).as_bytes()).await.expect("sent");
    }
    let accepted = timeout(SOON, listener.accept()).await.expect("in time");
    let (mut second, _) = accepted.expect("accepted");
    past_head(&mut second).await;
}

/// NTLM authenticates the connection, and a server of HTTP/1.1 expects requests with content, too, on one connection.
#[tokio::test]
async fn requests_with_content_and_a_login_of_the_connection_stay_on_one_connection() {
    let (listener, server) = listener().await;
    let serving = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("accepted");
        for answer in [
            "401 Unauthorized\r\nWWW-Authenticate: NTLM TlRMTVNTUAACAAAA",
            "200 OK",
            "200 OK",
        ] {
            past_head(&mut stream).await;
            let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.expect("sent");
        }
        stream
    });
    let mut client = client_of(server).await;
    for request in [
        "GET /x HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1",
        "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n2",
    ] {
        client.write_all(request.as_bytes()).await.expect("sent");
        timeout(SOON, past_head(&mut client)).await.expect("in time");
    }
    serving.await.expect("no panic");
}

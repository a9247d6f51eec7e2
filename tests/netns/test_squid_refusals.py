import re
import socket
import time
from contextlib import suppress

import pytest

from tests.netns.connections import MPTCP, TCP
from tests.netns.squid_world import (
    COUNTERS_PORT,
    HEAD_TIMEOUT,
    OUTSIDER,
    SERVER,
    SERVER6,
    Answer,
    World,
    net,
    read_answer,
    squids_socket,
)
from tests.netns.world import connected, listener_at, resident

__all__ = ["net"]

# What a client may ask for in vain, by the reason that it is told; test_guard.py holds Squid to the whole list.
FORBIDDEN = {
    "never-a-target": """127.0.0.1 127.1 0 2130706433 0x7f.1 0x7f000001 017700000001 [::ffff:7f00:1] [fe80::1]
        [64:ff9b:1::7f00:1] 169.254.169.254 loopback.test loopback6.test metadata.test mixed.test""",
    "own-address": "10.0.0.1 [fd00::1] 203.0.113.1 0xcb.0.0x71.1 own.test own-public.test [64:ff9b::a00:1]",
    "private-target": "10.0.0.2 [fd00::2] 167772162 private.test",
}
TARGETS = [(reason, target) for reason, targets in FORBIDDEN.items() for target in targets.split()]

# What the guard has to stop by itself.
GUARDED = """127.0.0.1 0.0.0.0 10.0.0.1 10.0.0.2 203.0.113.1 169.254.1.1 192.168.1.1 240.0.0.1 ::1 :: ::ffff:127.0.0.1
    ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1:: 2001::1 fd00::1 fd00::2 2001:db8::1 fec0::1"""

LATE = 1.5
"""Seconds: Squid looks for timeouts once a second, and needs some time itself."""


METHODS = pytest.mark.parametrize("method", ["GET", "CONNECT"])


def at(method: str, host: str, port: int | str = "") -> str:
    """What a request asks for; the usual port of its method unless another one is given."""
    return f"{host}:{port or 443}" if method == "CONNECT" else f"http://{host}:{port or 80}/"


def assert_refused(net: World, method: str, url: str, reason: str, source: str = "") -> None:
    answer = net.ask(method, url, source=source)
    assert answer.status == 403
    assert f'details="{reason}"' in answer.field("Proxy-Status")
    assert net.syns() == []
    assert net.origin.take() == []
    assert net.access_log.splitlines()[-1].endswith(reason)


@pytest.mark.parametrize("url", [f"http://{SERVER}/", f"http://[{SERVER6}]/", "http://server.test:8080/"])
def test_what_is_allowed_leaves_one_syn_without_mptcp(net: World, url: str) -> None:
    """The control for all others: the wire is watched, and an allowed request is seen on it."""
    assert net.ask("GET", url).status == 200
    (syn,) = net.syns()
    assert (syn.interface, syn.with_mptcp) == ("servers", False)
    assert syn.target in (SERVER, SERVER6)


@METHODS
@pytest.mark.parametrize(("reason", "target"), TARGETS)
def test_forbidden_target_is_refused(net: World, method: str, reason: str, target: str) -> None:
    assert_refused(net, method, at(method, target), reason)


COUNTERS = f"127.0.0.1:{COUNTERS_PORT}"
# By the reason that it is told, and the method.
NOT_ALLOWED = {
    ("port-not-allowed", "GET"): [f"http://{SERVER}:{port}/" for port in (22, 25, 53, 443)],
    ("port-not-allowed", "POST"): [f"http://{SERVER}:25/"],
    ("port-not-allowed", "CONNECT"): [*(f"{SERVER}:{port}" for port in (25, 53, 80, 8443)), COUNTERS],
    ("own-port", "GET"): [f"http://{host}:3128/" for host in (SERVER, "10.0.0.1", "own.test")],
    ("own-port", "CONNECT"): [f"{host}:3128" for host in (SERVER, "10.0.0.1", "[fd00::1]")],
    ("scheme-not-http", "GET"): [
        *(f"{scheme}://{SERVER}:{port}/" for scheme, port in (("ftp", 8021), ("https", 8443), ("whois", 8043))),
        *("urn:isbn:0", "cache_object://localhost/info", "cache_object://localhost/counters"),
    ],
    ("internal-page", "GET"): [
        *(f"{start}/squid-internal-mgr/info" for start in ("", "http://tributary:3128", f"http://{SERVER}")),
        f"http://{COUNTERS}/squid-internal-mgr/counters",
    ],
    ("never-a-target", "GET"): [f"http://{COUNTERS}/", f"http://loopback.test:{COUNTERS_PORT}/"],
    ("own-address", "GET"): [f"http://10.0.0.1:{COUNTERS_PORT}/"],
}


@pytest.mark.parametrize(
    ("method", "url", "reason"), [(how, url, why) for (why, how), urls in NOT_ALLOWED.items() for url in urls]
)
def test_port_or_scheme_that_is_not_allowed_is_refused(net: World, method: str, url: str, reason: str) -> None:
    assert_refused(net, method, url, reason)


@METHODS
@pytest.mark.parametrize("port", ["0", "65536", "-1"])
def test_port_that_is_none_is_refused(net: World, method: str, port: str) -> None:
    assert net.ask(method, at(method, SERVER, port)).status == 400
    assert net.syns() == []


@METHODS
def test_client_outside_the_networks_is_refused(net: World, method: str) -> None:
    assert_refused(net, method, at(method, SERVER), "client-outside-networks", OUTSIDER)


def test_this_machine_is_no_client_unless_it_is_in_the_networks(net: World) -> None:
    with connected(net.gateway, "127.0.0.1", 3128, seconds=10, protocol=TCP) as connection:
        connection.sendall(f"GET http://{SERVER}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = read_answer(connection, 10)
    assert (answer.status, net.origin.take()) == (403, [])


def counters_port(net: World, url: str, method: str = "GET") -> Answer:
    """What a program of the gateway gets there; no SYN but its own leaves."""
    with connected(net.gateway, "127.0.0.1", COUNTERS_PORT, seconds=10, protocol=TCP) as connection:
        connection.sendall(f"{method} {url} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
        answer = read_answer(connection, 10)
    assert {syn.port for syn in net.syns()} == {COUNTERS_PORT}
    return answer


def test_who_reads_counters_is_not_counted_and_no_client_reads_them(net: World) -> None:
    counters = [counters_port(net, "cache_object://localhost/counters").body for _ in range(3)]
    assert len({tuple(re.findall(rb"client_http.requests = \d+", each)) for each in counters}) == 1
    with pytest.raises(ConnectionRefusedError):
        net.connect(("10.0.0.1", COUNTERS_PORT))


@pytest.mark.parametrize("page", ["counters", "info", "service_times"])
def test_this_machine_reads_counters_at_their_port(net: World, page: str) -> None:
    before = net.access_log
    answer = counters_port(net, f"cache_object://localhost/{page}")
    assert answer.status == 200 and b"10.0.0." not in answer.body
    assert page != "counters" or b"client_http.requests = " in answer.body
    assert net.access_log == before


@pytest.mark.parametrize(
    ("method", "url"),
    [
        *(
            ("GET", f"cache_object://localhost/{page}")
            for page in ("shutdown", "active_requests", "config", "counters?x")
        ),
        *(("GET", f"http://{SERVER}/{rest}") for rest in ("", "cache_object://localhost/counters")),
        ("CONNECT", f"{SERVER}:443"),
    ],
)
def test_nothing_else_is_at_the_port_for_counters(net: World, method: str, url: str) -> None:
    answer = counters_port(net, url, method)
    assert (answer.status, net.origin.take()) == (403, [])
    assert 'details="internal-page"' in answer.field("Proxy-Status")


def test_server_learns_nothing_of_the_client(net: World) -> None:
    fields = "X-Forwarded-For: 10.0.0.2\r\nForwarded: for=10.0.0.2\r\nVia: 1.1 home\r\nConnection: close\r\n"
    assert net.send(f"GET http://{SERVER}/ HTTP/1.1\r\nHost: {SERVER}\r\n{fields}\r\n".encode()).status == 200
    (seen,) = net.origin.take()
    assert not [word for word in (b"10.0.0.", b"forwarded", b"squid", b"tributary") if word in seen.lower()]


# --- requests that two parsers could read in two ways (RFC 9112 sections 2.2, 5, 6.3, 11) ---

GET = b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: 203.0.113.2\r\n"
POST = b"POST http://203.0.113.2/ HTTP/1.1\r\nHost: 203.0.113.2\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: 203.0.113.2\r\n\r\n"

BAD_REQUESTS = {
    "two lengths that differ": POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    "two lengths alike": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
    **{
        f"length {text!r}": POST + f"Content-Length: {text}\r\n\r\n".encode() + b"abcdeabcde"
        for text in ("5, 5", "+5", "-5", "0x5", "1_0", "18446744073709551621", "")
    },
    "blank before the colon of a length": POST + b"Content-Length : 5\r\n\r\nabcde",
    "blank before the colon of a coding": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "bare LF after every line": b"GET http://203.0.113.2/ HTTP/1.1\nHost: 203.0.113.2\n\n",
    "bare CR in a field": GET + b"X: a\rContent-Length: 5\r\n\r\nabcde",
    "bare CR in the request line": b"GET http://203.0.113.2/\rX HTTP/1.1\r\nHost: 203.0.113.2\r\n\r\n",
    "NUL in a field": GET + b"X: a\0b\r\n\r\n",
    "NUL in a field's name": GET + b"X\0: a\r\n\r\n",
    "NUL in the target": b"GET http://203.0.113.2/\0 HTTP/1.1\r\nHost: 203.0.113.2\r\n\r\n",
    "blank in the target": b"GET http://203.0.113.2/ x HTTP/1.1\r\nHost: 203.0.113.2\r\n\r\n",
    "target without scheme": b"GET / HTTP/1.1\r\nHost: 203.0.113.2\r\n\r\n",
}
UNKNOWN_CODINGS = {
    "unknown coding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "coding after chunked": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "coding twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
}
BAD_CHUNKS = {
    **{
        f"size {text}": CHUNKED + text.encode() + b"\r\nabcde\r\n0\r\n\r\n"
        for text in ("0x5", "+5", "-5", "fffffffffffffffff5")
    },
    "size ended by bare LF": CHUNKED + b"5\nabcde\r\n0\r\n\r\n",
    "extension ended by bare LF": CHUNKED + b"5;a\nxx\r\nabcde\r\n0\r\n\r\n",
    "CRLF in a quoted extension": CHUNKED + b'5;a="x\r\ny"\r\nabcde\r\n0\r\n\r\n',
    "more data than its size": CHUNKED + b"5\r\nabcdefgh\r\n0\r\n\r\n",
}
# What Squid reads in one way and passes on in that way alone.
MENDED = {
    "length and chunked": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunked and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "identity coding": POST + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "vertical tab before chunked": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "folded field": GET + b"X: a\r\n b\r\n\r\n",
    "folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "blank before the first field": b"GET http://203.0.113.2/ HTTP/1.1\r\n Host: a\r\nX: y\r\n\r\n",
    "bare LF after one field": GET + b"X: a\nY: b\r\n\r\n",
    "length with underscore in its name": POST + b"Content_Length: 5\r\n\r\n",
    "chunked in HTTP/1.0": b"POST http://203.0.113.2/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    + SMUGGLED,
    "length in a trailer": CHUNKED + b"5\r\nabcde\r\n0\r\nContent-Length: 9\r\n\r\n",
    "two hosts": b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: 203.0.113.2\r\nHost: 127.0.0.1\r\n\r\n",
    "another host than the target's": b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize(
    ("status", "request_"),
    [*((400, request) for request in BAD_REQUESTS.values()), *((501, request) for request in UNKNOWN_CODINGS.values())],
    ids=[*BAD_REQUESTS, *UNKNOWN_CODINGS],
)
def test_bad_request_gets_its_status_and_a_close_and_reaches_nobody(net: World, status: int, request_: bytes) -> None:
    answer = net.send(request_)
    assert (answer.status, answer.ended) == (status, "closed")
    assert net.syns() == []


@pytest.mark.parametrize("request_", BAD_CHUNKS.values(), ids=BAD_CHUNKS)
def test_bad_chunk_ends_the_connection_and_reaches_nobody(net: World, request_: bytes) -> None:
    answer = net.send(request_)
    assert answer.ended in ("closed", "reset")
    assert answer.status in (None, 400)
    assert net.origin.take() == []


@pytest.mark.parametrize("request_", MENDED.values(), ids=MENDED)
def test_doubtful_request_is_refused_or_reaches_the_origin_once_and_unambiguous(net: World, request_: bytes) -> None:
    answer = net.send(request_, seconds=0.35)
    if answer.status in (400, 501):  # Squid 6 refuses `identity`, which Squid 5 leaves out
        assert net.origin.take() == []
        return
    (seen,) = net.origin.take()
    head, _, body = seen.partition(b"\r\n\r\n")
    fields = head.split(b"\r\n")[1:]
    lengths = [line for line in fields if line.lower().startswith(b"content-length:")]
    codings = [line for line in fields if line.lower().startswith(b"transfer-encoding:")]
    assert len(lengths) + len(codings) <= 1
    assert not codings
    assert len(body) == (int(lengths[0].partition(b":")[2]) if lengths else 0)
    assert not any(mark in line for mark in (b"\r", b"\n", b"\0") for line in fields)
    assert not any(line.startswith((b" ", b"\t")) for line in fields)
    assert [line for line in fields if line.lower().startswith(b"host:")] == [b"Host: 203.0.113.2"]
    assert b"smuggled" not in seen


# --- heads that are too large, too slow ---

LARGE = {
    "one field of 1 MB": (431, GET + b"X: " + b"a" * 10**6 + b"\r\n\r\n"),
    "a thousand fields of 1 kB": (
        431,
        GET + b"".join(b"X%d: %s\r\n" % (n, b"a" * 1000) for n in range(1000)) + b"\r\n",
    ),
    "ten thousand fields": (431, GET + b"".join(b"X%d: a\r\n" % n for n in range(10**4)) + b"\r\n"),
    "ten thousand empty fields": (431, GET + b"a:\r\n" * 10**4 + b"\r\n"),
    "target of 1 MB": (414, b"GET http://203.0.113.2/" + b"a" * 10**6 + b" HTTP/1.1\r\nHost: x\r\n\r\n"),
}


@pytest.mark.parametrize(("status", "request_"), LARGE.values(), ids=LARGE)
def test_large_head_is_refused_and_memory_stays_flat(net: World, status: int, request_: bytes) -> None:
    for _ in range(5):
        net.send(request_)
    pid = int((net.directory / "state/squid.pid").read_text())
    before = resident(pid)
    for _ in range(20):
        answer = net.send(request_)
        # A client that still sends when Squid closes may see a reset in place of the answer (RFC 9112 section 9.6).
        assert answer.status == status or (answer.status is None and answer.ended == "reset")
        assert f"/{status} " in net.access_log.splitlines()[-1]
    assert resident(pid) - before < 2 * 2**20
    assert net.syns() == []


def test_head_at_a_trickle_is_ended_at_the_absolute_limit(net: World) -> None:
    with net.connect() as connection:
        begun = time.monotonic()
        connection.settimeout(0.1)
        connection.sendall(b"GET http://203.0.113.2/ HTTP/1.1\r\nHost: a\r\nX: ")
        with suppress(ConnectionError):
            while time.monotonic() - begun < 5 * HEAD_TIMEOUT:
                connection.sendall(b"a")
                with suppress(TimeoutError):
                    if not connection.recv(1000):
                        break
        assert HEAD_TIMEOUT - 1 <= time.monotonic() - begun <= HEAD_TIMEOUT + LATE
    assert net.syns() == []


@pytest.mark.calm
def test_silent_client_is_ended_at_the_same_limit(net: World) -> None:
    with net.connect() as connection:
        begun = time.monotonic()
        assert read_answer(connection, 5 * HEAD_TIMEOUT).ended == "closed"
        assert HEAD_TIMEOUT - 1 <= time.monotonic() - begun <= HEAD_TIMEOUT + LATE


def test_bytes_right_after_connect_arrive_once_and_in_order(net: World) -> None:
    with net.connect() as connection:
        connection.sendall(b"CONNECT 203.0.113.2:443 HTTP/1.1\r\nHost: x\r\n\r\nearly ")
        connection.sendall(b"and late")
        answer = read_answer(connection, 0.7)
    assert (answer.status, answer.body) == (200, b"early and late")


# --- the guard, for what gets past Squid's own check ---


def refused_by_guard(net: World) -> int:
    shown = net.gateway.run("nft", "list", "counter", "inet", "squid", "refused_targets")
    return int(shown.split("packets ")[1].split()[0])


@pytest.mark.parametrize("address", ["203.0.113.77", "2001:db8::77"])
def test_own_address_that_came_after_the_start_is_refused_by_the_guard(net: World, address: str) -> None:
    net.gateway.ip("address", "add", address, "dev", "lo")
    before = refused_by_guard(net)
    answer = net.ask("GET", f"http://[{address}]/" if ":" in address else f"http://{address}/")
    assert answer.status == 503
    assert net.syns() == []
    assert refused_by_guard(net) > before


@pytest.mark.parametrize("address", GUARDED.split())
@pytest.mark.parametrize("protocol", [TCP, MPTCP])
def test_guard_lets_no_syn_of_squids_user_out_to_a_forbidden_target(net: World, address: str, protocol: int) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with squids_socket(net.gateway, family, protocol) as connection, pytest.raises(OSError):
        connection.connect((address, 443))
    assert net.syns() == []


@pytest.mark.parametrize(("resolver", "family"), [("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)])
def test_guard_lets_squid_ask_a_resolver_on_loopback(net: World, resolver: str, family: socket.AddressFamily) -> None:
    with listener_at(net.gateway, 53, resolver, TCP), squids_socket(net.gateway, family, MPTCP) as connection:
        connection.connect((resolver, 53))


def test_guard_takes_mptcp_off_what_squids_user_begins_and_leaves_that_of_others_alone(net: World) -> None:
    with squids_socket(net.gateway, socket.AF_INET, MPTCP) as connection:
        connection.connect((SERVER, 80))
    assert [syn.with_mptcp for syn in net.syns()] == [False]
    connected(net.gateway, SERVER, 80, protocol=MPTCP).close()
    assert [syn.with_mptcp for syn in net.syns()] == [True]

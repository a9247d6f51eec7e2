import socket
import time
from contextlib import suppress

import pytest

from tests.netns.connections import MPTCP, Refused, read_all, take, take_head
from tests.netns.converter_clients import PROTOCOLS, request
from tests.netns.converter_process import SERVER, Converter
from tests.netns.converter_services import CONTENT, chunks, dechunked, fetch, fields_of, heard, naming, respond
from tests.netns.converter_world import ALL, BUFFER, World
from tests.netns.world import eventually

CONFIG = ALL + '[limits]\nbuffer = "64KiB"\n'


@PROTOCOLS
def test_pipelined_requests_are_answered_in_order_over_one_connection(net: World, protocol: int) -> None:
    with net.serving(naming()) as service, net.proxy("absolute", protocol) as client:
        client.sendall(b"".join(request("absolute", SERVER, service.port, f"/{number}") for number in range(50)))
        assert [heard(client)[1] for _ in range(50)] == [b"/%d" % number for number in range(50)]
        assert len(service.peers) == 1


def test_pipelined_requests_for_two_servers_reach_each_its_own(net: World) -> None:
    with net.serving(naming()) as one, net.serving(naming()) as two, net.proxy("absolute") as client:
        requests = [request("absolute", SERVER, (one, two)[number % 2].port, f"/{number}") for number in range(10)]
        client.sendall(b"".join(requests))
        assert [heard(client)[1] for _ in range(10)] == [b"/%d" % number for number in range(10)]
        assert one.peers
        assert two.peers


@PROTOCOLS
def test_client_that_expects_100_is_told_by_the_server_alone(net: World, protocol: int) -> None:
    def careful(connection: socket.socket) -> None:
        assert b"expect: 100-continue" in take_head(connection).lower()
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        respond(connection, take(connection, len(CONTENT)))

    with net.serving(careful) as service, net.proxy("absolute", protocol) as client:
        fields = f"Expect: 100-continue\r\nContent-Length: {len(CONTENT)}\r\n"
        client.sendall(request("absolute", SERVER, service.port, "/", "POST", fields))
        assert take_head(client).startswith(b"HTTP/1.1 100 ")
        client.sendall(CONTENT)
        assert heard(client)[1] == CONTENT


def test_client_that_expects_100_and_is_refused_sends_nothing(net: World) -> None:
    def refusing(connection: socket.socket) -> None:
        take_head(connection)
        respond(connection, b"no", status=b"417 Expectation Failed")
        with suppress(Refused):
            take(connection, 1)
            raise AssertionError("the content came all the same")

    with net.serving(refusing) as service, net.proxy("absolute") as client:
        fields = "Expect: 100-continue\r\nContent-Length: 100\r\n"
        head, content = fetch(client, service.port, "/", "POST", fields)
        assert head.startswith(b"HTTP/1.1 417 ")
        assert fields_of(head)[b"connection"] == b"close"
        assert content == b"no"
        # Whether the content will come is not known: the connection cannot be used again.
        assert read_all(client)[0] == b""


@PROTOCOLS
@pytest.mark.parametrize("size", [7, 4096, 100_000])
def test_chunked_content_goes_both_ways(net: World, size: int, protocol: int) -> None:
    data = CONTENT[: 20 * size]

    def echoing(connection: socket.socket) -> None:
        while True:
            assert b"transfer-encoding: chunked" in take_head(connection).lower()
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            connection.sendall(chunks(dechunked(connection), size))

    with net.serving(echoing) as service, net.proxy("absolute", protocol) as client:
        for _ in range(3):
            head = request("absolute", SERVER, service.port, "/", "POST", "Transfer-Encoding: chunked\r\n")
            client.sendall(head + chunks(data, size))
            assert b"transfer-encoding: chunked" in take_head(client).lower()
            assert dechunked(client) == data
        assert len(service.peers) == 1


@pytest.mark.parametrize(
    ("version", "framing"), [("1.0", "length"), ("1.0", "chunked"), ("1.0", "close"), ("1.1", "close")]
)
def test_whole_content_without_chunks_ends_with_the_connection(net: World, version: str, framing: str) -> None:
    def serve(connection: socket.socket) -> None:
        take_head(connection)
        if framing == "length":
            respond(connection, CONTENT)
        elif framing == "chunked":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(CONTENT, 10_000))
        else:
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + CONTENT)

    with net.serving(serve) as service, net.proxy("absolute") as client:
        client.sendall(f"GET http://{SERVER}:{service.port}/ HTTP/{version}\r\nHost: {SERVER}\r\n\r\n".encode())
        assert b"chunked" not in take_head(client)
        assert read_all(client) == (CONTENT, "closed")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_response_that_was_cut_short_is_never_taken_for_whole(net: World, framing: str) -> None:
    def cut(connection: socket.socket) -> None:
        take_head(connection)
        if framing == "length":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(999))
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(bytes(99), 50)[:-5])

    with net.serving(cut) as service, net.get("absolute", service.port) as client:
        take_head(client)
        assert read_all(client)[1] == "reset"


def test_options_for_the_converter_is_answered_and_logged_by_it(net: World, running: Converter) -> None:
    before = len(running.lines())
    with net.proxy("absolute") as client:
        client.sendall(b"OPTIONS * HTTP/1.1\r\nHost: converter\r\n\r\n")
        head = take_head(client)
    assert head.split()[1] == b"204"
    assert b"CONNECT" in head
    (line,) = eventually(lambda: running.lines()[before:])
    assert (line["outcome"], line["status"]) == ("options", 204)


def test_five_gigabytes_come_whole_and_take_no_memory(net: World, running: Converter) -> None:
    size, block = 5_000_000_000, bytes(1 << 20)

    def zeros(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        for _ in range(size // len(block)):
            connection.sendall(block)
        connection.sendall(block[: size % len(block)])
        connection.recv(1)

    before, count, buffer = running.resident(), 0, bytearray(1 << 20)
    with net.serving(zeros) as service, net.get("absolute", service.port, protocol=MPTCP) as client:
        take_head(client)
        while count < size and (got := client.recv_into(buffer)):
            count += got
        assert count == size
        assert running.resident() - before < 4 << 20
    eventually(lambda: running.lines()[-1]["down_bytes"] > size)


# --- Responses as foreign servers write them: what can be understood is passed on, and nothing is refused for style ---

TEXT = CONTENT[:5000]
LENGTH = f"Content-Length: {len(TEXT)}"
# By the server that writes so: its status line, its fields, and whether its connection goes on.
FOREIGN = {
    "nginx": (
        "HTTP/1.1 200 OK|Server: nginx/1.26.3|Date: Sun, 06 Nov 1994 08:49:37 GMT|Content-Type: text/html"
        "|Transfer-Encoding: chunked|Connection: keep-alive|Vary: Accept-Encoding"
    ),
    "apache": (
        "HTTP/1.1 200 OK|Date: Sun, 06 Nov 1994 08:49:37 GMT|Server: Apache/2.4.62 (Debian)"
        f'|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT|ETag: "1388-5d1"|Accept-Ranges: bytes|{LENGTH}'
        "|Vary: Accept-Encoding|Keep-Alive: timeout=5, max=100|Connection: Keep-Alive"
    ),
    "python": (
        "HTTP/1.0 200 OK|Server: SimpleHTTP/0.6 Python/3.11.2|Date: Sun, 06 Nov 1994 08:49:37 GMT"
        f"|Content-type: application/octet-stream|{LENGTH}|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT|"
    ),
    "shouting": "HTTP/1.1 200 OK|CONTENT-TYPE: TEXT/PLAIN|TRANSFER-ENCODING: CHUNKED|CONNECTION: CLOSE",
    "no-space": f"HTTP/1.1 200 OK|Content-Length:{len(TEXT)}|X-Empty:|Server:none",
    "no-reason": f"HTTP/1.1 200 |{LENGTH}",
    "nominates-framing": "HTTP/1.1 200 OK|Connection: Transfer-Encoding|Transfer-Encoding: chunked",
    "nominates-framing-and-closes": "HTTP/1.1 200 OK|Connection: close, Transfer-Encoding|Transfer-Encoding: chunked",
    "nominates-length": f"HTTP/1.1 200 OK|Connection: Content-Length|{LENGTH}",
    "bytes-above-ascii": f"HTTP/1.1 200 D\xe9j\xe0 vu|{LENGTH}|Content-Disposition: attachment; filename=\xe9t\xe9.txt",
}


def written(text: str) -> bytes:
    head = text.rstrip("|").replace("|", "\r\n").encode("latin-1") + b"\r\n\r\n"
    return head + (chunks(TEXT, 999) if b"chunked" in head.lower() else TEXT)


def content_of(client: socket.socket, head: bytes) -> bytes:
    """By whichever framing its head has."""
    fields = fields_of(head)
    if fields.get(b"transfer-encoding") == b"chunked":
        return dechunked(client)
    if b"content-length" in fields:
        return take(client, int(fields[b"content-length"]))
    data, ended = read_all(client)
    assert ended == "closed"
    return data


def passed_on(net: World, text: str) -> tuple[bytes, int]:
    """The head of a response of a server that writes so, whose content came whole; the server's port."""

    def foreign(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(written(text))
        if not text.endswith("|") and "close" not in text.lower():
            connection.recv(1)

    with net.serving(foreign) as service, net.get("absolute", service.port) as client:
        head = take_head(client)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert content_of(client, head) == TEXT
    # A response without a Date gets one on its way (RFC 9110 section 6.6.1), and framing is said once.
    assert b"date" in fields_of(head)
    assert head.lower().count(b"content-length") <= 1
    return head, service.port


@pytest.mark.parametrize("name", FOREIGN)
def test_response_of_a_foreign_server_is_passed_on_whole(net: World, name: str) -> None:
    passed_on(net, FOREIGN[name])


def test_a_malformed_field_is_left_out_counted_and_told_in_the_log(net: World, running: Converter) -> None:
    head, port = passed_on(net, f"HTTP/1.1 200 OK|Secured by Excellent Serv : x|{LENGTH}")
    assert b"Secured" not in head
    running.wait_for(f'{SERVER}:{port} sent a malformed field line, which is left out: "Secured by')
    assert running.metrics()["tributary_converter_malformed_fields_total"] == 1


def test_ten_thousand_provisional_responses_take_no_memory_of_a_slow_client(net: World, running: Converter) -> None:
    count = 10_000
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </%s>; rel=preload\r\n\r\n" % (b"style" * 200)

    def flood(connection: socket.socket) -> None:
        take_head(connection)
        for _ in range(count // 100):
            connection.sendall(hint * 100)
        respond(connection, b"at last", b"Connection: close\r\n")

    with net.serving(flood) as service, net.proxy("absolute") as client:
        before = running.resident()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        client.sendall(request("absolute", SERVER, service.port, fields="Connection: close\r\n"))
        most = 0
        for _ in range(10):
            time.sleep(0.05)
            assert running.status()["buffered_bytes"] <= BUFFER
            most = max(most, running.resident())
        data, ended = read_slowly(client)
        assert ended == "closed"
        *hints, last, text = data.split(b"\r\n\r\n")
        assert len(hints) == count
        assert {hint.split()[1] for hint in hints} == {b"103"}
        assert (last.split()[1], text) == (b"200", b"at last")
        assert max(most, running.resident()) - before < 1 << 20
    eventually(lambda: running.status()["buffered_bytes"] == 0)


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_who_is_told_that_a_response_is_on_its_way_waits_for_it(net: World, running: Converter, version: str) -> None:
    """Also for a client of HTTP/1.0, which gets no interim responses (RFC 9110 section 15.2)."""

    def processing(connection: socket.socket) -> None:
        take_head(connection)
        for _ in range(3):
            time.sleep(0.6)
            connection.sendall(b"HTTP/1.1 102 Processing\r\n\r\n")
        respond(connection, b"at last", b"Connection: close\r\n")

    with (
        running.reloaded(CONFIG + '[timeouts]\nidle = "1s"\n'),
        net.serving(processing) as service,
        net.proxy("absolute") as client,
    ):
        client.sendall(request("absolute", SERVER, service.port).replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
        heads = 1 if version == "1.0" else 4
        assert [take_head(client).split()[1] for _ in range(heads)] == [b"102"] * (heads - 1) + [b"200"]
        assert take(client, 7) == b"at last"


def read_slowly(client: socket.socket) -> tuple[bytes, str]:
    """With a pause after each of the first pieces."""
    data = b""
    for _ in range(50):
        data += client.recv(1 << 14)
        time.sleep(0.01)
    rest, ended = read_all(client)
    return data + rest, ended

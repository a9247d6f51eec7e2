"""Responses as foreign servers write them: what can be understood is passed on, and nothing is refused for style."""

import socket
import time

import pytest

from tests.netns.converter_clients import proxy, read_all, request, take, take_head
from tests.netns.converter_messages import chunks, dechunked, fields_of, respond
from tests.netns.converter_services import CONTENT
from tests.netns.converter_short_timeouts import BUFFER, net, running
from tests.netns.converter_world import SERVER, Converter, World, needs_tools
from tests.netns.world import eventually

__all__ = ["net", "running"]
pytestmark = needs_tools

TEXT = CONTENT[:5000]
LENGTH = f"Content-Length: {len(TEXT)}"
# By the server that writes so: its status line, its fields, and whether its connection goes on.
FOREIGN = {
    "nginx": (
        "HTTP/1.1 200 OK|Server: nginx/1.26.3|Date: Sun, 06 Nov 1994 08:49:37 GMT|Content-Type: text/html"
        "|Transfer-Encoding: chunked|Connection: keep-alive|Vary: Accept-Encoding"
    ),
    "nginx-closes": f"HTTP/1.1 200 OK|Server: nginx|Content-Type: text/html|{LENGTH}|Connection: close",
    "apache": (
        "HTTP/1.1 200 OK|Date: Sun, 06 Nov 1994 08:49:37 GMT|Server: Apache/2.4.62 (Debian)"
        f'|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT|ETag: "1388-5d1"|Accept-Ranges: bytes|{LENGTH}'
        "|Vary: Accept-Encoding|Keep-Alive: timeout=5, max=100|Connection: Keep-Alive"
    ),
    "apache-chunks": (
        "HTTP/1.1 200 OK|Server: Apache|Keep-Alive: timeout=5, max=99|Connection: Keep-Alive"
        "|Transfer-Encoding: chunked|Content-Type: text/html; charset=UTF-8"
    ),
    "iis": (
        f"HTTP/1.1 200 OK|Content-Type: text/html|Server: Microsoft-IIS/10.0|X-Powered-By: ASP.NET|{LENGTH}"
        "|Set-Cookie: a=1; path=/; HttpOnly|Set-Cookie: b=2; path=/"
    ),
    "http-1.0": "HTTP/1.0 200 OK|Server: NCSA/1.5.2|Content-type: text/html|",
    "http-1.0-length": f"HTTP/1.0 200 Document follows|MIME-Version: 1.0|Server: CERN/3.0A|{LENGTH}|",
    "python": (
        "HTTP/1.0 200 OK|Server: SimpleHTTP/0.6 Python/3.11.2|Date: Sun, 06 Nov 1994 08:49:37 GMT"
        f"|Content-type: application/octet-stream|{LENGTH}|Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT|"
    ),
    "node": "HTTP/1.1 200 OK|Connection: keep-alive|Keep-Alive: timeout=5|Transfer-Encoding: chunked",
    "lower-case": f"HTTP/1.1 200 OK|content-type: text/plain|content-length: {len(TEXT)}|connection: close",
    "shouting": "HTTP/1.1 200 OK|CONTENT-TYPE: TEXT/PLAIN|TRANSFER-ENCODING: CHUNKED|CONNECTION: CLOSE",
    "no-space": f"HTTP/1.1 200 OK|Content-Length:{len(TEXT)}|X-Empty:|Server:none",
    "no-reason": f"HTTP/1.1 200 |{LENGTH}",
    "nothing-but-a-status": "HTTP/1.1 200 OK|",
    "nominates-framing": "HTTP/1.1 200 OK|Connection: Transfer-Encoding|Transfer-Encoding: chunked",
    "nominates-framing-and-closes": "HTTP/1.1 200 OK|Connection: close, Transfer-Encoding|Transfer-Encoding: chunked",
    "nominates-length": f"HTTP/1.1 200 OK|Connection: Content-Length|{LENGTH}",
    "length-twice": f"HTTP/1.1 200 OK|{LENGTH}|{LENGTH}",
    "length-as-a-list": f"HTTP/1.1 200 OK|{LENGTH}, {len(TEXT)}",
    "identity": "HTTP/1.1 200 OK|Transfer-Encoding: identity|",
    "many-fields": f"HTTP/1.1 200 OK|{LENGTH}" + "|Link: </a.css>; rel=preload" * 150,
    "malformed-field": f"HTTP/1.1 200 OK|Secured by Excellent Serv : x|{LENGTH}",
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


@pytest.mark.parametrize("name", FOREIGN)
def test_response_of_a_foreign_server_is_passed_on_whole(net: World, name: str) -> None:
    text = FOREIGN[name]

    def foreign(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(written(text))
        if not text.endswith("|") and "close" not in text.lower():
            connection.recv(1)

    with net.serving(foreign) as service, proxy(net, "absolute") as client:
        client.sendall(request("absolute", SERVER, service.port))
        head = take_head(client)
        assert head.startswith(b"HTTP/1.1 200 ")
        assert content_of(client, head) == TEXT
        # A response without a Date gets one on its way (RFC 9110 section 6.6.1), and framing is said once.
        assert b"date" in fields_of(head)
        assert head.lower().count(b"content-length") <= 1


def test_a_malformed_field_is_left_out_counted_and_told_in_the_log(net: World, running: Converter) -> None:
    def old(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(written(FOREIGN["malformed-field"]))
        connection.recv(1)

    with net.serving(old) as service, proxy(net, "absolute") as client:
        client.sendall(request("absolute", SERVER, service.port))
        head = take_head(client)
        assert b"Secured" not in head
        assert content_of(client, head) == TEXT
        running.wait_for(f'{SERVER}:{service.port} sent a malformed field line, which is left out: "Secured by')
        assert running.metrics()["tributary_converter_malformed_fields_total"] == 1


@pytest.mark.parametrize("framing", ["identity", "gzip, chunked"])
def test_head_and_304_have_no_content_whatever_their_coding_says(net: World, framing: str) -> None:
    def coding(connection: socket.socket) -> None:
        while head := take_head(connection):
            status = "200 OK" if head.startswith(b"HEAD") else "304 Not Modified"
            connection.sendall(f"HTTP/1.1 {status}\r\nTransfer-Encoding: {framing}\r\n\r\n".encode())

    with net.serving(coding) as service, proxy(net, "absolute") as client:
        for method, status in (("HEAD", b"200"), ("GET", b"304"), ("HEAD", b"200")):
            client.sendall(request("absolute", SERVER, service.port, "/", method))
            head = take_head(client)
            assert head.split()[1] == status
            assert b"transfer-encoding" not in fields_of(head)


def test_ten_thousand_provisional_responses_take_no_memory_of_a_slow_client(net: World, running: Converter) -> None:
    count = 10_000
    hint = b"HTTP/1.1 103 Early Hints\r\nLink: </%s>; rel=preload\r\n\r\n" % (b"style" * 200)

    def flood(connection: socket.socket) -> None:
        take_head(connection)
        for _ in range(count // 100):
            connection.sendall(hint * 100)
        respond(connection, b"at last", b"Connection: close\r\n")

    with net.serving(flood) as service, proxy(net, "absolute") as client:
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


def read_slowly(client: socket.socket) -> tuple[bytes, str]:
    """With a pause after each of the first pieces."""
    data = b""
    for _ in range(50):
        data += client.recv(1 << 14)
        time.sleep(0.01)
    rest, ended = read_all(client)
    return data + rest, ended

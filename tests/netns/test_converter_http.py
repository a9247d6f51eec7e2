"""The parts of HTTP that proxies get wrong, end to end over the native converter."""

import socket
from contextlib import suppress

import pytest

from tests.netns.converter_clients import PROTOCOLS, Refused, get, proxy, read_all, request, take, take_head
from tests.netns.converter_messages import chunks, dechunked, fields_of, heard, path_of, respond
from tests.netns.converter_services import CONTENT
from tests.netns.converter_world import ALL, MPTCP, SERVER, Converter, World, needs_tools
from tests.netns.world import eventually

pytestmark = needs_tools

CONFIG = ALL


def repeating(connection: socket.socket) -> None:
    """Says which path it was asked for, over and over."""
    while True:
        respond(connection, path_of(take_head(connection)))


@PROTOCOLS
def test_pipelined_requests_are_answered_in_order_over_one_connection(net: World, protocol: int) -> None:
    with net.serving(repeating) as service, proxy(net, "absolute", protocol) as client:
        client.sendall(b"".join(request("absolute", SERVER, service.port, f"/{number}") for number in range(50)))
        assert [heard(client)[1] for _ in range(50)] == [b"/%d" % number for number in range(50)]
        assert len(service.peers) == 1


def test_pipelined_requests_for_two_servers_reach_each_its_own(net: World) -> None:
    with net.serving(repeating) as one, net.serving(repeating) as two, proxy(net, "absolute") as client:
        requests = [request("absolute", SERVER, (one, two)[number % 2].port, f"/{number}") for number in range(10)]
        client.sendall(b"".join(requests))
        assert [heard(client)[1] for _ in range(10)] == [b"/%d" % number for number in range(10)]
        assert one.peers
        assert two.peers


def test_request_on_a_kept_connection_that_its_server_has_ended_is_asked_again(net: World) -> None:
    def once(connection: socket.socket) -> None:
        respond(connection, path_of(take_head(connection)))

    with net.serving(once) as service, proxy(net, "absolute") as client:
        for number in range(5):
            client.sendall(request("absolute", SERVER, service.port, f"/{number}"))
            assert heard(client)[1] == b"/%d" % number
        assert len(service.peers) == 5


def test_request_that_changes_things_is_never_sent_twice(net: World) -> None:
    seen: list[bytes] = []

    def once(connection: socket.socket) -> None:
        respond(connection, path_of(take_head(connection)))
        seen.append(take_head(connection))
        take(connection, 3)

    with net.serving(once) as service, proxy(net, "absolute") as client:
        client.sendall(request("absolute", SERVER, service.port))
        heard(client)
        client.sendall(request("absolute", SERVER, service.port, "/", "POST", "Content-Length: 3\r\n") + b"abc")
        assert heard(client)[0].startswith(b"HTTP/1.1 502 ")
        assert (len(seen), len(service.peers)) == (1, 1)


@PROTOCOLS
def test_client_that_expects_100_is_told_by_the_server_alone(net: World, protocol: int) -> None:
    def careful(connection: socket.socket) -> None:
        assert b"expect: 100-continue" in take_head(connection).lower()
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        respond(connection, take(connection, len(CONTENT)))

    with net.serving(careful) as service, proxy(net, "absolute", protocol) as client:
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

    with net.serving(refusing) as service, proxy(net, "absolute") as client:
        fields = "Expect: 100-continue\r\nContent-Length: 100\r\n"
        client.sendall(request("absolute", SERVER, service.port, "/", "POST", fields))
        head, content = heard(client)
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

    with net.serving(echoing) as service, proxy(net, "absolute", protocol) as client:
        for _ in range(3):
            head = request("absolute", SERVER, service.port, "/", "POST", "Transfer-Encoding: chunked\r\n")
            client.sendall(head + chunks(data, size))
            assert b"transfer-encoding: chunked" in take_head(client).lower()
            assert dechunked(client) == data
        assert len(service.peers) == 1


def test_head_204_and_304_have_no_content_and_the_connection_goes_on(net: World) -> None:
    def careful(connection: socket.socket) -> None:
        while True:
            head = take_head(connection)
            if head.startswith(b"HEAD"):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
            elif path_of(head) == b"/204":
                connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
            elif path_of(head) == b"/304":
                connection.sendall(b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 100\r\n\r\n')
            else:
                respond(connection, path_of(head))

    with net.serving(careful) as service, proxy(net, "absolute") as client:
        for method, path, status in (("HEAD", "/", b"200"), ("GET", "/204", b"204"), ("GET", "/304", b"304")):
            client.sendall(request("absolute", SERVER, service.port, path, method))
            assert take_head(client).split()[1] == status
            client.sendall(request("absolute", SERVER, service.port, "/after"))
            assert heard(client)[1] == b"/after"
        assert len(service.peers) == 1


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_http_1_0_client_gets_whole_content_without_chunks(net: World, framing: str) -> None:
    def serve(connection: socket.socket) -> None:
        take_head(connection)
        if framing == "length":
            respond(connection, CONTENT)
        elif framing == "chunked":
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(CONTENT, 10_000))
        else:
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + CONTENT)

    with net.serving(serve) as service, proxy(net, "absolute") as client:
        client.sendall(f"GET http://{SERVER}:{service.port}/ HTTP/1.0\r\n\r\n".encode())
        assert b"chunked" not in take_head(client)
        assert read_all(client) == (CONTENT, "closed")


def test_http_1_0_server_s_content_ends_with_its_connection(net: World) -> None:
    def old(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + CONTENT)

    with net.serving(old) as service, get(net, "absolute", service.port) as client:
        assert take_head(client).startswith(b"HTTP/1.1 200 ")
        assert read_all(client) == (CONTENT, "closed")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_response_that_was_cut_short_is_never_taken_for_whole(net: World, framing: str) -> None:
    def cut(connection: socket.socket) -> None:
        take_head(connection)
        if framing == "length":
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(999))
        else:
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(bytes(99), 50)[:-5])

    with net.serving(cut) as service, get(net, "absolute", service.port) as client:
        take_head(client)
        assert read_all(client)[1] == "reset"


@PROTOCOLS
def test_response_that_comes_while_the_client_still_sends_gets_there(net: World, protocol: int) -> None:
    def refusing(connection: socket.socket) -> None:
        take_head(connection)
        respond(connection, b"too large", b"Connection: close\r\n", b"413 Content Too Large")
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(2)
        while connection.recv(1 << 16):
            pass

    with net.serving(refusing) as service, proxy(net, "absolute", protocol) as client:
        client.sendall(request("absolute", SERVER, service.port, "/", "PUT", f"Content-Length: {1 << 30}\r\n"))
        client.sendall(bytes(100_000))
        head, content = heard(client)
        assert head.startswith(b"HTTP/1.1 413 ")
        assert content == b"too large"
        with suppress(ConnectionError):
            client.sendall(bytes(10_000))
        assert read_all(client)[0] == b""


def test_options_for_the_converter_is_answered_by_it(net: World) -> None:
    with proxy(net, "absolute") as client:
        client.sendall(b"OPTIONS * HTTP/1.1\r\nHost: converter\r\n\r\n")
        head = take_head(client)
        assert head.split()[1] in (b"200", b"204")
        assert b"CONNECT" in head


def test_hop_by_hop_fields_stay_and_no_via_is_added(net: World) -> None:
    seen: list[bytes] = []

    def recording(connection: socket.socket) -> None:
        seen.append(take_head(connection))
        respond(connection, b"", b"Connection: x-hop\r\nX-Hop: 1\r\nX-End: 1\r\n")

    fields = "Connection: x-mine\r\nX-Mine: 1\r\nProxy-Connection: keep-alive\r\nTE: trailers\r\nX-End: 1\r\n"
    with net.serving(recording) as service, proxy(net, "absolute") as client:
        client.sendall(request("absolute", SERVER, service.port, "/a?b", "GET", fields))
        answer = heard(client)[0].lower()
    (asked,) = seen
    assert asked.startswith(b"GET /a?b HTTP/1.1\r\n")
    for hop in (b"x-mine", b"proxy-connection"):
        assert hop not in asked.lower()
    assert b"x-end: 1" in asked.lower()
    assert b"via:" not in asked.lower() + answer
    assert b"x-hop" not in answer
    assert b"x-end: 1" in answer


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
    with net.serving(zeros) as service, get(net, "absolute", service.port, protocol=MPTCP) as client:
        take_head(client)
        while count < size and (got := client.recv_into(buffer)):
            count += got
        assert count == size
        assert running.resident() - before < 4 << 20
    eventually(lambda: running.lines()[-1]["down_bytes"] > size)

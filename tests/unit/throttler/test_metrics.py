"""Metrics from the status document, and the HTTP that they are asked for by."""

import http.client
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.throttler.answer import answer, session, unread
from throttler.service.metrics import Exporter
from throttler.service.status import Status
from tributary.daemons.metrics_server import listen_address, respond
from tributary.daemons.metrics_server import server as listen
from tributary.daemons.request_server import Server
from tributary.settings.errors import CommandError, Exit

NAME = "tributary_throttler"


def samples(page: bytes) -> dict[tuple[str, tuple[str, ...]], float]:
    """Name and label values (in the order of the labels' names) to value."""
    families = text_string_to_metric_families(page.decode())
    return {
        (sample.name.removeprefix(f"{NAME}_"), tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("info", ("kernel",), 1),
        ("uptime_seconds", (), 12.3),
        ("throttled_subflows", (), 1),
        ("rule_active", ("lte-quota",), 0),
        ("rule_matches_total", ("wired-slow",), 17),
        ("rule_rate_bytes_per_second", ("wired-slow",), 625_000),
        ("rule_quota_max_used_bytes", ("month", "lte-quota"), 3e9),
        ("path_throttled_subflows", ("wired", "wired"), 1),
        ("path_sent_bytes_total", ("wired",), 1000),
        ("path_sent_bytes_total", ("",), 2000),
        ("class_dropped_packets_total", ("download", "wired-slow"), 7),
        ("class_backlog_bytes", ("download", "wired-slow"), 0),
        ("capture_dropped_packets_total", ("wired",), 2),
        ("events_total", ("joins established",), 1),
    ],
)
def test_a_metric_has_its_value(name: str, labels: tuple[str, ...], value: float) -> None:
    assert samples(Exporter().page(answer()))[name, labels] == value


def test_every_metric_has_help_and_no_label_names_a_client() -> None:
    text = Exporter().page(answer()).decode()
    families = list(text_string_to_metric_families(text))
    assert len(families) > 20 and all(family.documentation for family in families)
    assert not any(secret in text for secret in ("1a2b3c4d", "10.0.1.2", "5452:", "2001:db8"))


def classes(*counts: tuple[str, int | None]) -> Status:
    """An answer with classes of these owners and bytes sent; None is not read."""
    (read,), (not_read,) = answer().classes, unread(answer()).classes
    return answer(
        classes=tuple(
            replace(not_read, owner=owner)
            if sent is None
            else replace(read, owner=owner, sent_bytes=sent, backlog_bytes=10)
            for owner, sent in counts
        )
    )


def test_a_counter_never_falls_when_classes_end() -> None:
    exporter = Exporter()
    steps = [
        classes(("a", 100), ("b", 50)),
        classes(("a", 110)),
        classes(),
        classes(("c", 5)),
        classes(("c", 2)),  # the class ended, and another one has its name
    ]
    name = "class_sent_bytes_total", ("download", "wired-slow")
    assert [samples(exporter.page(step))[name] for step in steps] == [150, 160, 160, 165, 167]


CLASS_SERIES = (
    "class_sent_bytes_total",
    "class_sent_packets_total",
    "class_dropped_packets_total",
    "class_backlog_bytes",
)


def test_a_rule_whose_class_could_not_be_read_has_no_series_of_it_and_the_class_is_counted() -> None:
    exporter = Exporter()
    read, not_read, again = (samples(exporter.page(one)) for one in (answer(), unread(answer()), answer()))
    at = "download", "wired-slow"
    assert [name for name in CLASS_SERIES if (name, at) in read] == list(CLASS_SERIES)
    assert [name for name in CLASS_SERIES if (name, at) in not_read] == []
    assert [one["unread_classes", ()] for one in (read, not_read, again)] == [0, 1, 0]
    assert not_read["classes", ()] == 1 and not_read["rule_classes", ("wired-slow",)] == 1


def test_of_several_classes_those_that_could_be_read_are_summed() -> None:
    found = samples(Exporter().page(classes(("a", 100), ("b", None))))
    at = "download", "wired-slow"
    assert (found["class_sent_bytes_total", at], found["class_backlog_bytes", at]) == (100, 10)
    assert found["unread_classes", ()] == 1


def test_what_a_class_has_sent_counts_once_though_it_could_not_be_read_for_a_while() -> None:
    exporter = Exporter()
    steps = [classes(("a", 100), ("b", 0)), classes(("a", None), ("b", 0)), classes(("a", 130), ("b", 0))]
    name = "class_sent_bytes_total", ("download", "wired-slow")
    assert [samples(exporter.page(step))[name] for step in steps] == [100, 100, 130]


def test_what_a_subflow_has_sent_counts_once_though_its_socket_was_not_read_for_a_while() -> None:
    def sent(count: int | None) -> Status:
        throttled = replace(answer().sessions[0].subflows[0], sent_bytes=count)
        return answer(sessions=(session(answer(), subflows=(throttled,)),))

    exporter = Exporter()
    pages = [samples(exporter.page(sent(count))) for count in (100, None, 130)]
    assert [page["path_sent_bytes_total", ("wired",)] for page in pages] == [100, 100, 130]


def test_sums_do_not_leap_when_sockets_are_read_again_after_there_were_too_many() -> None:
    exporter = Exporter()
    steps = (answer(), replace(answer(), sessions=()), answer())
    pages = [samples(exporter.page(each)) for each in steps]
    assert [page["path_sent_bytes_total", ("wired",)] for page in pages] == [1000, 1000, 1000]


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x", b"200 OK"),
        (b"GET /metrics?x=1 HTTP/1.0", b"200 OK"),
        (b"GET http://host:9464/metrics HTTP/1.1", b"200 OK"),
        (b"GET / HTTP/1.1", b"404 Not Found"),
        (b"POST /metrics HTTP/1.1", b"405 Method Not Allowed"),
        (b"GET /metrics HTTP/2.0", b"505 HTTP Version Not Supported"),
        (b"GET /metrics", b"400 Bad Request"),
        (b"GET http://[/metrics HTTP/1.1", b"400 Bad Request"),
        (b"\xff \xff \xff", b"400 Bad Request"),
        (b"", b"400 Bad Request"),
    ],
)
def test_status_of_a_request(head: bytes, status: bytes) -> None:
    assert respond(head, lambda: b"x 1\n").startswith(b"HTTP/1.1 " + status + b"\r\n")


def test_head_gets_the_length_and_no_body() -> None:
    response = respond(b"HEAD /metrics HTTP/1.1", lambda: b"x 1\n")
    assert b"Content-Length: 4\r\n" in response and response.endswith(b"\r\n\r\n")


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with listen(request.param, 0) as found:
        yield found


def serve_while(server: Server, client: Callable[[], object], page: bytes = b"x 1\n") -> None:
    """Run ``client`` in a thread, and the loop as the daemon would until it is done."""
    thread = threading.Thread(target=client)
    thread.start()
    with selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        while thread.is_alive():
            selector.select(0.02)
            server.serve(lambda head, _: respond(head, lambda: page))


def test_a_page_of_any_size_arrives_whole(server: Server) -> None:
    found: list[bytes] = []
    page = b"x 1\n" * 2_000_000

    def client() -> None:
        connection = http.client.HTTPConnection(*server.address, timeout=10)
        connection.request("GET", "/metrics")
        found.append(connection.getresponse().read())
        connection.close()

    serve_while(server, client, page)
    assert found == [page]


@pytest.mark.parametrize(
    ("pieces", "start", "end"),
    [
        ([bytes([byte]) for byte in b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"], b"HTTP/1.1 200 ", b"\r\n\r\nx 1\n"),
        ([b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 20_000], b"HTTP/1.1 431 ", b""),
    ],
    ids=["byte by byte", "without end"],
)
def test_a_request_in_pieces_is_answered_and_one_without_end_refused(
    server: Server, pieces: list[bytes], start: bytes, end: bytes
) -> None:
    found: list[bytes] = []

    def client() -> None:
        with socket.create_connection(server.address, timeout=10) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                connection.sendall(piece)
            found.append(b"".join(iter(lambda: connection.recv(65536), b"")))

    serve_while(server, client)
    assert found[0].startswith(start) and found[0].endswith(end)


def test_connections_are_bounded_in_number_and_time() -> None:
    now = 0.0
    with listen("127.0.0.1", 0, clock=lambda: now) as server:
        silent = [socket.create_connection(server.address, timeout=10) for _ in range(17)]
        for _ in silent:
            assert server.serve(lambda *_: b"")
        # The oldest gives way, or whoever says nothing would keep Prometheus out.
        assert silent[0].recv(1) == b""
        silent[1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[1].recv(1)
        now = 6.0
        assert not server.serve(lambda *_: b"")
        assert silent[1].recv(1) == b""
    for connection in silent:
        connection.close()


def test_a_client_that_leaves_is_forgotten(server: Server) -> None:
    with socket.create_connection(server.address, timeout=10) as connection:
        assert server.serve(lambda *_: b"")
        connection.sendall(b"GET /met")
    while server.serve(lambda *_: b""):
        pass


@pytest.mark.parametrize("address", ["192.0.2.77", "2001:db8::77"])
def test_an_address_that_comes_later_is_listened_on(address: str) -> None:
    with listen(address, 0) as server:
        assert server.address[0] == address


def test_a_port_that_is_taken_is_a_failure(server: Server) -> None:
    with pytest.raises(CommandError) as failure, listen(*server.address):
        pass
    assert failure.value.code == Exit.IN_USE


@pytest.mark.parametrize(
    ("text", "address"), [("127.0.0.1:9464", ("127.0.0.1", 9464)), ("[::]:1", ("::", 1)), ("0.0.0.0:1", ("0.0.0.0", 1))]
)
def test_an_address_to_listen_on(text: str, address: tuple[str, int]) -> None:
    found = listen_address(text)
    assert (str(found.address), found.port) == address


@pytest.mark.parametrize("text", ["", "9464", ":9464", "localhost:9464", "127.0.0.1:0", "::1:9464", "[127.0.0.1]:1"])
def test_an_address_that_leaves_a_doubt_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="accepted: an address and a port"):
        listen_address(text)

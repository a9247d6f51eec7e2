"""What a native converter takes from the next one: which failures are those of one request, and when it is away."""

import signal
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Event

import pytest

from tests.netns.connections import passes, read_all, reset, take, take_head
from tests.netns.converter_clients import (
    ALL_KINDS,
    FORBIDDEN,
    TIMED_OUT,
    convert_connect,
    convert_message,
    convert_reply,
    request,
)
from tests.netns.converter_nodes import ALL_VIA_GATEWAY, NODES, node, route, via
from tests.netns.converter_process import SERVER
from tests.netns.converter_services import (
    SERVED,
    SERVICE,
    Handler,
    answer,
    echo,
    fetch,
    greet,
    naming,
    path_of,
    respond,
    take_request,
)
from tests.netns.converter_world import Service, World
from tests.netns.world import eventually, sysctl

DENIED = "203.0.113.77"
REFUSE = 'fallback = "refuse"'
EARLY = b"one and no other"


@ALL_KINDS
@pytest.mark.parametrize("cookies", ["false", "true"], ids=["plain", "cookies"])
def test_a_target_that_the_next_converter_forbids_is_refused_and_others_go_on_by_it(
    conv: World, kind: str, cookies: str
) -> None:
    """A client asks for what the gateway denies, which may want cookies: that request is refused, and no other."""
    denied = f'[targets]\ndeny = ["{DENIED}/32"]\n'
    with (
        node(conv, "first", tables=denied, keys=f"cookies = {cookies}\n") as behind,
        conv.converter(via(NODES["first"]) + '[upstream]\nreuse = "never"\n') as converter,
        conv.serving(SERVICE[kind]) as service,
    ):
        for _ in range(3):
            assert conv.hears(kind, DENIED, 4443) == FORBIDDEN[kind]
            assert conv.hears(kind, SERVER, service.port) == SERVED[kind]
        eventually(lambda: behind.served().count("ok") == 3)
        assert "is unavailable" not in converter.log


@ALL_KINDS
def test_a_server_that_is_silent_to_the_next_converter_is_that_server_alone(conv: World, kind: str) -> None:
    """The next converter gives up on a silent server sooner than this one would."""
    with (
        conv.filtered(conv.server, "tcp dport 5 drop"),
        node(conv, "first", tables='[timeouts]\nconnect = "400ms"\n') as behind,
        conv.converter(via(NODES["first"])) as converter,
        conv.serving(SERVICE[kind]) as service,
    ):
        assert conv.hears(kind, SERVER, 5) == TIMED_OUT[kind]
        assert conv.hears(kind, SERVER, service.port) == SERVED[kind]
        eventually(lambda: behind.served() == ["timed-out", "ok"])
        assert "is unavailable" not in converter.log


def test_the_next_converters_own_next_one_is_not_this_ones(conv: World) -> None:
    """The second converter of three is away for some servers; the first one serves the others."""
    way = f"[gateway]\n{REFUSE}\n" + route(f"{DENIED}/32", NODES["second"])
    with (
        node(conv, "first", way) as behind,
        conv.converter(via(NODES["first"])) as converter,
        conv.serving(greet) as service,
    ):
        assert conv.hears("connect", DENIED, 80) == "504"
        assert conv.hears("connect", SERVER, service.port) == "hello"
        eventually(lambda: behind.served() == ["gateway-unavailable", "ok"])
        assert "is unavailable" not in converter.log


ESTABLISHED = convert_message()


def by(behind: Service, *keys: str) -> str:
    """The configuration of a converter whose next one is a service of the tests."""
    return via(f"{SERVER}:{behind.port}", "mptcp = false", *keys)


def error(code: int, value: int = 0) -> bytes:
    """A message with an Error TLV alone (RFC 8803 section 6.2.8)."""
    return convert_message(struct.pack("!BBBB", 30, 1, code, value))


def in_turn(*answers: bytes) -> Handler:
    """A converter that gives these answers, one to each request: ``b""`` resets. Then it establishes and greets."""
    left = list(answers)

    def handle(connection: socket.socket) -> None:
        take_request(connection)
        answer = left.pop(0) if left else ESTABLISHED
        if answer:
            connection.sendall(answer + b"hello" * (answer == ESTABLISHED))
            connection.recv(1)
        else:
            reset(connection)

    return handle


@pytest.mark.parametrize(
    ("answer", "heard"),
    [
        (error(1), "502"),
        (error(32), "403"),
        (error(33, 30), "502"),
        (error(64), "502"),
        (error(65), "504"),
        (error(77), "502"),
        (error(96), "502"),
        (error(97, 1), "502"),
        # As a converter ends that has sent too many errors of late.
        (b"", "502"),
    ],
    ids=["malformed", "forbidden", "option", "resources", "network", "unknown", "server-reset", "icmp", "reset"],
)
def test_an_error_without_a_delay_is_that_of_one_request(conv: World, answer: bytes, heard: str) -> None:
    with conv.serving(in_turn(answer)) as behind, conv.converter(by(behind)) as converter:
        assert conv.hears("connect", DENIED, 80) == heard
        assert conv.hears("connect", DENIED, 80) == "hello"
        assert "is unavailable" not in converter.log


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (error(64, 1), "no requests for 1 s (Convert error 64)"),
        (error(65, 1), "no requests for 1 s (Convert error 65)"),
        (error(0), "Convert error 0"),
        (error(2), "Convert error 2"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "no Convert message"),
    ],
    ids=["resources", "network", "version", "message", "http"],
)
def test_a_converter_that_wants_a_delay_or_speaks_no_convert_is_left_alone(
    conv: World, answer: bytes, why: str
) -> None:
    """The delay is the one that it names (RFC 8803 section 6.2.8), or this side's own."""
    with conv.serving(in_turn(answer)) as behind, conv.converter(by(behind, REFUSE, 'retry = "1s"')) as converter:
        begin = time.monotonic()
        for _ in range(2):
            assert conv.hears("connect", DENIED, 80) == "502"
        assert len(behind.peers) == 1
        assert why in converter.log
        eventually(lambda: conv.hears("connect", DENIED, 80) == "hello")
        assert time.monotonic() - begin > 0.9


@pytest.mark.parametrize(("limit", "seconds"), [("connections", 5), ("connections_per_client", 1)])
def test_a_next_converter_that_is_full_is_got_round(conv: World, limit: str, seconds: int) -> None:
    """Who may go directly does so for the time that it names, and is not failed."""
    with (
        node(conv, "first", tables=f"[limits]\n{limit} = 1\n") as behind,
        conv.converter(via(NODES["first"])) as converter,
        conv.serving(echo) as service,
    ):
        with conv.opened("connect", SERVER, service.port) as old:
            for _ in range(2):
                with conv.opened("connect", SERVER, service.port) as new:
                    assert passes(new, new)
            assert passes(old, old)
            assert f"no requests for {seconds} s (Convert error 64)" in converter.log
        eventually(lambda: converter.served() == ["ok"] * 3)
        assert behind.served() == ["ok"]


def test_a_full_converter_goes_on_with_what_it_carries_and_gets_no_requests_for_the_time_that_it_names(
    conv: World,
) -> None:
    """Also with a request that waits so long that the converter is asked whether it is there."""

    def numbered(connection: socket.socket) -> None:
        number = len(service.connections)
        while True:
            path = path_of(take_head(connection))
            time.sleep(1.5 if path == b"/slow" else 0)
            respond(connection, b"%s %d" % (path, number))

    with (
        node(conv, "first", tables="[limits]\nconnections = 1\n") as behind,
        conv.converter(via(NODES["first"], 'timeout = "600ms"')) as converter,
        conv.serving(numbered) as service,
        conv.proxy("absolute") as old,
        conv.proxy("absolute") as new,
    ):
        assert fetch(old, service.port, "/first")[1] == b"/first 1"
        assert fetch(new, service.port, "/directly")[1] == b"/directly 2"
        assert "no requests for 5 s (Convert error 64)" in converter.log
        assert fetch(old, service.port, "/slow")[1] == b"/slow 1"
        assert fetch(old, service.port, "/last")[1] == b"/last 1"
        assert "is back" not in converter.log
        old.close()
        eventually(lambda: behind.served() == ["ok"])


@pytest.mark.parametrize("kind", ["connect", "convert", "tproxy"])
def test_what_came_early_goes_directly_where_the_next_converter_is_full(conv: World, kind: str) -> None:
    with (
        node(conv, "first", tables="[limits]\nconnections = 1\n") as behind,
        conv.converter(via(NODES["first"])) as converter,
        conv.serving(echo) as service,
        conv.opened("connect", SERVER, service.port) as old,
    ):
        assert passes(old, old)
        if kind == "tproxy":
            # What is here when the client is accepted came early.
            converter.popen.send_signal(signal.SIGSTOP)
        with conv.opened(kind, SERVER, service.port, early=EARLY) as new:
            converter.popen.send_signal(signal.SIGCONT)
            assert take(new, len(EARLY)) == EARLY
        assert "no requests for 5 s (Convert error 64)" in converter.log
        assert behind.served() == []


@contextmanager
def without_ports(conv: World, port: int) -> Iterator[None]:
    """The first of NODES, and whoever is on its machine, has none left towards this port of SERVER."""
    conv.intercept("")
    host, at = NODES["first"].rsplit(":", 1)
    with sysctl(conv.gateway, net__ipv4__ip_local_port_range="40000 40007"), ExitStack() as stack:
        for _ in range(8):
            client = stack.enter_context(conv.connect(host, int(at)))
            client.sendall(convert_message(convert_connect(SERVER, port)))
            assert convert_reply(client) == b""
            assert take(client, 5) == b"hello"
        yield


def test_a_converter_without_ports_towards_one_server_is_asked_for_others(conv: World) -> None:
    with (
        node(conv, "first") as behind,
        conv.converter(via(NODES["first"])) as converter,
        conv.serving(greet) as crowded,
        conv.serving(greet) as other,
    ):
        with without_ports(conv, crowded.port):
            for kind in ("connect", "socks5", "convert"):
                assert conv.hears(kind, SERVER, crowded.port) == TIMED_OUT[kind]
                assert conv.hears(kind, SERVER, other.port) == "hello"
        eventually(lambda: len(behind.served()) == 14)
        assert sorted(behind.served()) == ["exhausted"] * 3 + ["ok"] * 11
        assert "is unavailable" not in converter.log


INFO = 1
"""A TLV that asks for nothing but an answer (RFC 8803 section 6.2.3)."""


def test_a_response_that_has_begun_keeps_no_other_request_from_a_way_that_works(conv: World) -> None:
    """Two wait by way of a converter that hangs as soon as it has passed on the first bytes for the one."""
    is_asked = Event()

    def hanging(connection: socket.socket) -> None:
        if take_request(connection)[0] == INFO:
            is_asked.set()
        else:
            connection.sendall(ESTABLISHED)
            while (path := path_of(take_head(connection))) == b"/":
                respond(connection, b"by way of it")
            if path == b"/begins":
                is_asked.wait(10)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf")
        connection.recv(1)

    with (
        conv.serving(hanging) as behind,
        conv.converter(by(behind, 'timeout = "900ms"')) as converter,
        conv.serving(answer) as service,
        conv.proxy("absolute") as one,
        conv.proxy("absolute") as other,
    ):
        for client in (one, other):
            assert fetch(client, service.port)[1] == b"by way of it"
        one.sendall(request("absolute", SERVER, service.port, "/begins"))
        take_head(one)
        assert fetch(other, service.port, "/waits")[1] == b"hi"
        assert "is unavailable: it does not answer" in converter.log


def test_a_request_waits_for_a_converter_that_others_hear_from_though_it_takes_no_new_connection(conv: World) -> None:
    """The path of new connections has died, and that of those that are there has not."""

    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b"x")
            time.sleep(0.1)

    port = NODES["first"].rsplit(":", 1)[1]
    with (
        node(conv, "first"),
        conv.converter(via(NODES["first"], 'timeout = "900ms"')) as converter,
        conv.serving(naming(slow=3)) as service,
        conv.serving(drip) as dripping,
        conv.proxy("absolute") as client,
        conv.opened("connect", SERVER, dripping.port),
    ):
        assert fetch(client, service.port)[1] == b"/"
        with conv.filtered(conv.gateway, f"tcp dport {port} tcp flags & (syn | ack) == syn drop"):
            assert fetch(client, service.port, "/slow")[1] == b"/slow"
        assert len(service.peers) == 1
        assert "is unavailable" not in converter.log


def test_a_machine_without_ports_or_descriptors_left_does_not_take_the_next_converter_for_away(conv: World) -> None:
    """Local exhaustion is told to those whom it hits, and is over as soon as it is."""
    with conv.serving(in_turn()) as behind, conv.converter(by(behind)) as converter:

        def outcome() -> str:
            before = len(converter.lines())
            heard = conv.hears("connect", DENIED, 80)
            eventually(lambda: len(converter.lines()) > before)
            return f"{heard} {converter.lines()[-1]['outcome']}"

        whole = outcome()
        assert whole.startswith("hello ")
        with (
            sysctl(conv.gateway, net__ipv4__ip_local_port_range="40000 40001"),
            conv.opened("connect", DENIED, 80),
            conv.opened("connect", DENIED, 80),
        ):
            assert outcome() == "503 exhausted"
        assert outcome() == whole
        converter.wait_until_idle()
        converter.leave_files(1)
        assert outcome() == "503 exhausted"
        converter.leave_files(1000)
        assert outcome() == whole
        assert "is unavailable" not in converter.log


def late(got: list[bytes]) -> Handler:
    """A converter that answers after a second, and notes what comes behind the request until then."""

    def handle(connection: socket.socket) -> None:
        take_request(connection)
        got.append(read_all(connection, 1)[0])
        with suppress(OSError):
            connection.sendall(ESTABLISHED)

    return handle


@pytest.mark.parametrize("keys", [(), ("fast_open = true",)], ids=["plain", "in-the-syn"])
@pytest.mark.parametrize("kind", ["connect", "socks5", "convert", "tproxy"])
def test_what_came_early_reaches_the_server_once_where_the_next_best_way_serves(
    conv: World, kind: str, keys: tuple[str, ...]
) -> None:
    """The first way's converter has the request and answers late; what the client sent with it goes the second way."""
    behind_first: list[bytes] = []
    with (
        conv.serving(late(behind_first)) as behind,
        node(conv, "second") as second,
        conv.serving(echo) as service,
    ):
        way = "\n".join(("[gateway]", "mptcp = false", 'timeout = "300ms"', *keys, ""))
        ways = route(f"{SERVER}/32", f"{SERVER}:{behind.port} or {NODES['second']}")
        with (
            conv.converter(ALL_VIA_GATEWAY + way + ways),
            conv.opened(kind, SERVER, service.port, early=EARLY) as client,
        ):
            assert take(client, len(EARLY)) == EARLY
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"", "closed")
        eventually(lambda: second.served() == ["ok"])
        eventually(lambda: behind_first)
    assert behind_first == [b""]


@pytest.mark.parametrize("early", [b"", EARLY], ids=["without", "with"])
def test_what_may_have_reached_the_server_is_not_sent_again_directly(conv: World, early: bytes) -> None:
    """The only next converter takes the request and ends without an answer: only a client that sent nothing goes on."""
    got: list[bytes] = []

    def dying(connection: socket.socket) -> None:
        take_request(connection)
        got.append(take(connection, len(early)))

    with (
        conv.serving(dying) as behind,
        conv.serving(echo) as service,
        conv.converter(by(behind)) as converter,
    ):
        if early:
            assert conv.hears("connect", SERVER, service.port, early=EARLY) == "502"
        else:
            with conv.opened("connect", SERVER, service.port) as client:
                assert passes(client, client, EARLY)
        assert len(service.peers) == (0 if early else 1)
        # Who comes next goes directly in any case.
        assert conv.hears("connect", SERVER, service.port, early=EARLY) == EARLY.decode()
        assert got == [early]
        assert converter.log.count("is unavailable") == 1

"""What a native converter takes from the next one: which failures are those of one request, and when it is away."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.netns.converter_clients import (
    ALL_KINDS,
    FORBIDDEN,
    convert_message,
    hears,
    opened,
    read_all,
    reset,
    take,
)
from tests.netns.converter_nodes import ALL_VIA_GATEWAY, NODES, gateway, node, route, served
from tests.netns.converter_services import SERVED, SERVICE, echo, greet
from tests.netns.converter_world import CLIENTS, SERVER, Converter, Handler, World, leave_files, needs_tools
from tests.netns.world import eventually

pytestmark = needs_tools

DENIED = "203.0.113.77"
REFUSE = 'fallback = "refuse"'
TIMED_OUT = {"socks5": "socks 4", "convert": "convert 65", "tproxy": "reset", "redirect": "reset"}


@contextmanager
def first(conv: World, *tables: str, cookies: bool = False) -> Iterator[Converter]:
    """The first of NODES, with these tables in its configuration."""
    listen = f'[[listen]]\nkind = "convert"\naddress = "{NODES["first"]}"\ncookies = {str(cookies).lower()}\n'
    with conv.converter(f"{CLIENTS}[metrics]\n{''.join(tables)}{listen}") as converter:
        yield converter


@ALL_KINDS
@pytest.mark.parametrize("cookies", [False, True], ids=["plain", "cookies"])
def test_a_target_that_the_next_converter_forbids_is_refused_and_others_go_on_by_it(
    conv: World, kind: str, cookies: bool
) -> None:
    """A client asks for what the gateway denies, which may want cookies: that request is refused, and no other."""
    denied = f'[targets]\ndeny = ["{DENIED}/32"]\n'
    with (
        first(conv, denied, cookies=cookies) as behind,
        conv.converter(ALL_VIA_GATEWAY + gateway(NODES["first"]) + '[upstream]\nreuse = "never"\n') as converter,
        conv.serving(SERVICE[kind]) as service,
    ):
        for _ in range(3):
            assert hears(conv, kind, DENIED, 4443) == FORBIDDEN[kind]
            assert hears(conv, kind, SERVER, service.port) == SERVED[kind]
        eventually(lambda: served(behind).count("ok") == 3)
        assert "is unavailable" not in converter.log


@ALL_KINDS
def test_a_server_that_is_silent_to_the_next_converter_is_that_server_alone(conv: World, kind: str) -> None:
    """The next converter gives up on a silent server sooner than this one would."""
    conv.nft("table ip dead { chain input { type filter hook input priority 0; tcp dport 5 drop; }; }", conv.server)
    try:
        with (
            first(conv, '[timeouts]\nconnect = "400ms"\n') as behind,
            conv.converter(ALL_VIA_GATEWAY + gateway(NODES["first"])) as converter,
            conv.serving(SERVICE[kind]) as service,
        ):
            assert hears(conv, kind, SERVER, 5) == TIMED_OUT.get(kind, "504")
            assert hears(conv, kind, SERVER, service.port) == SERVED[kind]
            eventually(lambda: served(behind) == ["timed-out", "ok"])
            assert "is unavailable" not in converter.log
    finally:
        conv.nft("delete table ip dead", conv.server)


def test_the_next_converters_own_next_one_is_not_this_ones(conv: World) -> None:
    """The second converter of three is away for some servers; the first one serves the others."""
    way = f"[gateway]\n{REFUSE}\n" + route(f"{DENIED}/32", NODES["second"])
    with (
        node(conv, "first", way) as behind,
        conv.converter(ALL_VIA_GATEWAY + gateway(NODES["first"])) as converter,
        conv.serving(greet) as service,
    ):
        assert hears(conv, "connect", DENIED, 80) == "504"
        assert hears(conv, "connect", SERVER, service.port) == "hello"
        eventually(lambda: served(behind) == ["gateway-unavailable", "ok"])
        assert "is unavailable" not in converter.log


ESTABLISHED = convert_message()


def error(code: int, value: int = 0) -> bytes:
    """A message with an Error TLV alone (RFC 8803 section 6.2.8)."""
    return convert_message(struct.pack("!BBBB", 30, 1, code, value))


def take_request(connection: socket.socket) -> None:
    take(connection, 4 * take(connection, 4)[1] - 4)


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
    with conv.serving(in_turn(answer)) as behind:
        config = ALL_VIA_GATEWAY + gateway(f"{SERVER}:{behind.port}", "mptcp = false")
        with conv.converter(config) as converter:
            assert hears(conv, "connect", DENIED, 80) == heard
            assert hears(conv, "connect", DENIED, 80) == "hello"
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
    with conv.serving(in_turn(answer)) as behind:
        way = gateway(f"{SERVER}:{behind.port}", "mptcp = false", REFUSE, 'retry = "1s"')
        with conv.converter(ALL_VIA_GATEWAY + way) as converter:
            begin = time.monotonic()
            for _ in range(2):
                assert hears(conv, "connect", DENIED, 80) == "502"
            assert len(behind.peers) == 1
            assert why in converter.log
            eventually(lambda: hears(conv, "connect", DENIED, 80) == "hello")
            assert time.monotonic() - begin > 0.9


def test_a_machine_without_ports_or_descriptors_left_does_not_take_the_next_converter_for_away(conv: World) -> None:
    """Local exhaustion is told to those whom it hits, and is over as soon as it is."""
    with conv.serving(in_turn()) as behind:
        config = ALL_VIA_GATEWAY + gateway(f"{SERVER}:{behind.port}", "mptcp = false")
        with conv.converter(config) as converter:

            def outcome() -> str:
                before = len(converter.lines())
                heard = hears(conv, "connect", DENIED, 80)
                eventually(lambda: len(converter.lines()) > before)
                return f"{heard} {converter.lines()[-1]['outcome']}"

            whole = outcome()
            assert whole.startswith("hello ")
            conv.gateway.sysctl(net__ipv4__ip_local_port_range="40000 40001")
            try:
                with opened(conv, "connect", DENIED, 80), opened(conv, "connect", DENIED, 80):
                    assert outcome() == "503 exhausted"
            finally:
                conv.gateway.sysctl(net__ipv4__ip_local_port_range="32768 60999")
            assert outcome() == whole
            eventually(lambda: converter.status()["open_connections"] == 0)
            leave_files(converter, 1)
            assert outcome() == "503 exhausted"
            leave_files(converter, 1000)
            assert outcome() == whole
            assert "is unavailable" not in converter.log


EARLY = b"one and no other"


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
            opened(conv, kind, SERVER, service.port, early=EARLY) as client,
        ):
            assert take(client, len(EARLY)) == EARLY
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"", "closed")
        eventually(lambda: served(second) == ["ok"])
        eventually(lambda: behind_first)
    assert behind_first == [b""]


@pytest.mark.parametrize("early", [b"", EARLY], ids=["without", "with"])
def test_what_may_have_reached_the_server_is_not_sent_again_directly(conv: World, early: bytes) -> None:
    """The only next converter takes the request and ends without an answer: only a client that sent nothing goes on."""
    got: list[bytes] = []

    def dying(connection: socket.socket) -> None:
        take_request(connection)
        got.append(take(connection, len(early)))

    with conv.serving(dying) as behind, conv.serving(echo) as service:
        config = ALL_VIA_GATEWAY + gateway(f"{SERVER}:{behind.port}", "mptcp = false")
        with conv.converter(config) as converter:
            if early:
                assert heard_early(conv, service.port) == "502"
            else:
                with opened(conv, "connect", SERVER, service.port) as client:
                    client.sendall(EARLY)
                    assert take(client, len(EARLY)) == EARLY
            assert len(service.peers) == (0 if early else 1)
            # Who comes next goes directly in any case.
            assert heard_early(conv, service.port) == EARLY.decode()
            assert got == [early]
            assert converter.log.count("is unavailable") == 1


def heard_early(conv: World, port: int) -> str:
    """What a client hears that sends EARLY behind its CONNECT: the status of a refusal, or the echo."""
    try:
        with opened(conv, "connect", SERVER, port, early=EARLY) as client:
            return take(client, len(EARLY)).decode()
    except ConnectionError as refused:
        return str(refused.args[0])

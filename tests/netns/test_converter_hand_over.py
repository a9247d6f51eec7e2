import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.netns.connections import MPTCP, TCP, clog, meanwhile, passes, read_all, seconds_to_reset, take, take_head
from tests.netns.converter_clients import ALL_KINDS, TUNNELS
from tests.netns.converter_process import SERVER, Converter, start
from tests.netns.converter_services import fields_of, greet, late
from tests.netns.converter_world import ALL, CLIENTS, EXTRA, GATEWAY, LISTENERS, PORTS, SHORT_TIMEOUTS, World
from tests.netns.world import eventually, program
from tributary.settings.errors import Exit

SIZE = 4 << 20


@contextmanager
def upgradable(world: World, config: str = ALL, *wrapper: str) -> Iterator[Converter]:
    """A converter whose program is a copy that can be replaced."""
    copied = 'folder=${2%/*}; cp "$0" $folder/program && exec $folder/program "$@"'
    with world.converter(config, *wrapper, "sh", "-c", copied) as converter:
        yield converter


def hand_over(converter: Converter) -> int:
    """Put a new program in place of the old one and hand over to it; returns its process."""
    program = converter.directory / "program"
    shutil.copy(program, program.with_suffix(".new"))
    program.with_suffix(".new").replace(program)
    before = converter.status()["pid"]
    os.kill(before, signal.SIGUSR2)
    return int(eventually(lambda: (now := converter.status()["pid"]) != before and now))


def refuses(converter: Converter, config: str, code: int) -> None:
    """It does not hand over to a successor of this configuration, which ends with this exit code."""
    converter.write(config)
    converter.popen.send_signal(signal.SIGUSR2)
    converter.wait_for(f"not handed over, the successor ended: exit status: {code}")


def test_a_download_goes_on_to_its_end_and_new_clients_are_served_by_the_new_program(conv: World) -> None:
    begin = threading.Event()
    with upgradable(conv) as converter, conv.serving(late(begin, SIZE)) as slow, conv.serving(greet) as service:
        with conv.get("absolute", slow.port, protocol=MPTCP) as client:
            take_head(client)
            new = hand_over(converter)
            assert Path(f"/proc/{new}/exe").readlink() == converter.directory / "program"
            assert converter.popen.poll() is None
            assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"
            assert converter.status()["listeners"][0]["accepted"] == 1
            begin.set()
            assert len(take(client, SIZE)) == SIZE
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"", "closed")
        converter.ends()
        assert converter.status()["pid"] == new
        assert converter.metrics()["tributary_converter_open_connections"] == 0


def test_nobody_is_refused_while_it_is_handed_over_again_and_again(conv: World) -> None:
    with upgradable(conv) as converter, conv.serving(greet) as service:
        with conv.asking("connect", service.port, MPTCP) as heard:
            for _ in range(3):
                hand_over(converter)
        assert set(heard) == {"hello"}


@pytest.mark.parametrize(
    ("key", "line", "changed"),
    [
        ("mptcp", 'kind = "http"', 'kind = "http"\nmptcp = false'),
        ("intercept", 'intercept = "tproxy"', 'intercept = "redirect"\nmptcp = false'),
    ],
)
def test_a_listener_that_needs_another_socket_is_not_handed_over(
    key: str, line: str, changed: str, conv: World
) -> None:
    """The kernel says of its plain TCP sockets, and not of MPTCP's, who may have other machines' addresses."""
    before = ALL.replace(line, f"{line}\nmptcp = false") if key == "intercept" else ALL
    with upgradable(conv, before) as converter, conv.serving(greet) as service:
        refuses(converter, ALL.replace(line, changed), 64)
        assert f"{key} of a listener can change by a restart only" in converter.log
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"


def test_a_hand_over_changes_the_backlog(conv: World) -> None:
    with upgradable(conv) as converter, conv.serving(greet) as service:
        converter.write("[limits]\nbacklog = 77\n" + ALL)
        hand_over(converter)
        assert conv.backlogs() == {"77"}
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"


# A packet socket is among the last things that it opens.
FAILS_LATE = "[limits]\nbacklog = 77\n" + ALL.replace('kind = "convert"', 'kind = "convert"\nearly_syn = true')


@pytest.mark.parametrize(("config", "code"), [("wokers = 3\n", 64), (FAILS_LATE, 77)], ids=["at-once", "late"])
def test_a_successor_that_fails_leaves_everything_to_who_serves(conv: World, config: str, code: int) -> None:
    limit = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
    with upgradable(conv, ALL, *limit) as converter, conv.serving(greet) as service:
        refuses(converter, config, code)
        assert converter.status()["pid"] == converter.pid
        assert sorted(file.name for file in converter.directory.glob("control*")) == ["control"]
        assert conv.backlogs() == {"4096"}
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"
        converter.write(ALL)
        assert hand_over(converter) != converter.pid


def test_connections_that_do_not_end_in_time_are_reset(conv: World) -> None:
    with upgradable(conv, ALL + '[timeouts]\nhand_over = "300ms"\n') as converter, conv.joined("connect", MPTCP):
        hand_over(converter)
        converter.ends(1)
        converter.wait_for("1 connections had not ended in time")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 1), (signal.SIGKILL, -9)], ids=["ended", "killed"])
def test_the_new_one_lives_without_the_old_one(conv: World, sent: signal.Signals, code: int) -> None:
    config = ALL + '[timeouts]\ndrain = "300ms"\n'
    with upgradable(conv, config) as converter, conv.serving(greet) as service, conv.joined("connect", MPTCP):
        hand_over(converter)
        converter.popen.send_signal(sent)
        converter.ends(code)
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"


def is_gone(converter: Converter) -> bool:
    """Whether the last process has ended: its socket goes with it."""
    return not (converter.directory / "control").exists()


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_who_is_told_to_end_after_a_hand_over_waits_for_those_before(conv: World, times: int) -> None:
    """As by systemctl stop, which tells the main process alone and kills who is left when that one has ended."""
    with upgradable(conv) as converter, conv.joined("connect", MPTCP) as (client, server):
        new = [hand_over(converter) for _ in range(times)][-1]
        os.kill(new, signal.SIGTERM)
        eventually(lambda: converter.status()["draining"])
        with meanwhile(server.sendall, bytes(SIZE)):
            assert len(take(client, SIZE)) == SIZE
        assert converter.popen.poll() is None
        assert converter.status()["pid"] == new
        server.shutdown(socket.SHUT_WR)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (b"", "closed")
        converter.ends()
        eventually(lambda: is_gone(converter))


@pytest.mark.parametrize("again", [False, True], ids=["deadline", "second-signal"])
def test_connections_of_before_a_hand_over_have_no_longer_than_a_drain(conv: World, again: bool) -> None:
    limit = "10s" if again else "500ms"
    with (
        upgradable(conv, ALL + f'[timeouts]\ndrain = "{limit}"\n') as converter,
        conv.joined("connect", MPTCP) as (client, server),
    ):
        new = hand_over(converter)
        os.kill(new, signal.SIGTERM)
        if again:
            eventually(lambda: converter.status()["draining"])
            os.kill(new, signal.SIGTERM)
        converter.ends(1, 5)
        assert seconds_to_reset(client) < 1
        assert seconds_to_reset(server) < 1
        eventually(lambda: is_gone(converter))


# --- How it ends: it lets transfers end, and lets nobody in; or it is killed, and replaced ---


@ALL_KINDS
def test_drain_lets_transfers_end_and_nobody_in(conv: World, kind: str) -> None:
    begin = threading.Event()
    size = 4 << 20
    with conv.converter(ALL + '[timeouts]\ndrain = "10s"\n') as converter, conv.serving(late(begin, size)) as service:
        with conv.get(kind, service.port, MPTCP) as client, conv.proxy("absolute") as idle:
            take_head(client)
            conv.intercept("")
            converter.popen.terminate()
            eventually(lambda: converter.status()["draining"])
            for port in PORTS.values():
                eventually(lambda port=port: conv.nobody_listens(port))  # type: ignore[misc]
            assert converter.metrics()["tributary_converter_open_connections"] >= 1
            # Nobody waits for who has not asked for anything.
            assert read_all(idle) == (b"", "closed")
            if kind in ("tproxy", "redirect"):
                conv.intercept(kind)
            begin.set()
            assert len(take(client, size)) == size
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"", "closed")
        converter.ends()
        assert not (converter.directory / "control").exists()


def test_answer_of_the_converter_itself_says_that_its_connection_ends_with_the_process(conv: World) -> None:
    with conv.converter(ALL) as converter, conv.proxy("absolute") as client:
        client.sendall(b"OPTIONS * HTTP/1.1\r\n")
        eventually(lambda: converter.status()["buffered_bytes"] > 0)
        converter.popen.terminate()
        eventually(lambda: converter.status()["draining"])
        client.sendall(b"Host: converter\r\n\r\n")
        assert fields_of(take_head(client))[b"connection"] == b"close"
        assert read_all(client) == (b"", "closed")
        converter.ends()


@pytest.mark.parametrize("again", [False, True], ids=["deadline", "second-signal"])
def test_drain_ends_at_its_deadline_or_at_a_second_signal_by_resets(conv: World, again: bool) -> None:
    limit = "10s" if again else "500ms"
    with conv.converter(ALL + f'[timeouts]\ndrain = "{limit}"\n') as converter, ExitStack() as stack:
        pairs = [stack.enter_context(conv.joined(kind, MPTCP)) for kind in ("connect", "absolute", "socks5", "convert")]
        said = bytes(1 << 16)
        for client, server in pairs:
            server.sendall(said)
            take(client, len(said))
        begin = time.monotonic()
        converter.popen.terminate()
        if again:
            eventually(lambda: converter.status()["draining"])
            converter.popen.send_signal(signal.SIGINT)
        converter.ends(1)
        assert (time.monotonic() - begin < 0.5) == again
        for client, server in pairs:
            assert seconds_to_reset(client) < 1
            assert seconds_to_reset(server) < 1
        assert "4 connections had not ended in time" in converter.log
        # Each has its line all the same: they were written before the process ended.
        lines = converter.lines()
        assert sorted(line["listener"] for line in lines) == ["convert", "http", "http", "socks5"]
        assert {line["outcome"] for line in lines} == {"shutdown"}
        assert all(line["target"].startswith(SERVER) and line["down_bytes"] >= len(said) for line in lines)
        assert all(line["paths"] for line in lines)


def test_killed_converter_is_replaced_at_once_and_its_clients_know(conv: World) -> None:
    with conv.converter(SHORT_TIMEOUTS) as first, conv.joined("connect", MPTCP) as (client, server):
        clog(server)
        first.popen.kill()
        first.ends(-9)
        # Its control socket and its connections' ports are still there.
        assert (first.directory / "control").is_socket()
        second = start(conv.gateway, first.directory, SHORT_TIMEOUTS)
        try:
            eventually(second.answers)
            with conv.serving(greet) as service:
                heard = {kind: conv.hears(kind, SERVER, service.port, MPTCP) for kind in TUNNELS}
            assert set(heard.values()) == {"hello"}
            assert seconds_to_reset(server) < 1
            assert read_all(client)[1] in ("closed", "reset")
        finally:
            second.popen.terminate()
            second.ends()


# --- Sockets that it is passed, as by systemd: sd_listen_fds(3) ---

ONE_LISTENER = CLIENTS + LISTENERS.partition('[[listen]]\nkind = "socks5"')[0]


def passed(protocol: int) -> tuple[str, ...]:
    """What passes a program a listening socket for port 3128."""
    return program("passed_socket", str(protocol))


@pytest.mark.parametrize("protocol", [MPTCP, TCP], ids=["mptcp", "tcp"])
def test_passed_socket_is_used_as_it_is(conv: World, protocol: int) -> None:
    with conv.converter(ONE_LISTENER, *passed(protocol)) as converter, conv.serving(greet) as service:
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"
        with conv.joined("connect", MPTCP) as (client, server):
            assert passes(client, server)
            assert ("tcp-ulp-mptcp" in conv.gateway.run("ss", "-Htni", "sport", "= :3128")) == (protocol == MPTCP)
            # Clients that vanish without a word are found.
            assert "timer:(keepalive" in conv.gateway.run("ss", "-Htno", "sport", "= :3128")
        assert ("without SocketProtocol=mptcp" in converter.log) == (protocol == TCP)
        assert converter.status()["listeners"][0]["mptcp"] == (protocol == MPTCP)


def test_passed_socket_is_passed_on_as_it_is(conv: World) -> None:
    """By a restart it would be the same, so a hand-over that refused it would be one that can never be."""
    with conv.converter(ONE_LISTENER, *passed(TCP)) as converter, conv.serving(greet) as service:
        converter.popen.send_signal(signal.SIGUSR2)
        eventually(lambda: converter.status()["pid"] != converter.pid)
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"
        converter.ends()


def test_passed_socket_that_nobody_wants_is_named_and_closed(conv: World) -> None:
    with conv.converter(CLIENTS + EXTRA, *passed(MPTCP)) as converter:
        converter.wait_for("no listener has this address")
        with pytest.raises(ConnectionRefusedError):
            conv.connect(GATEWAY, 3128)


def test_a_converter_that_nobody_uses_ends_and_leaves_its_socket_to_who_passed_it(conv: World) -> None:
    config = '[timeouts]\nunused = "1s"\n' + ONE_LISTENER
    with conv.converter(config, *passed(MPTCP)) as converter, conv.serving(greet) as service:
        with conv.joined("connect", MPTCP) as (client, server):
            time.sleep(1.5)
            assert passes(client, server)
        assert conv.hears("connect", SERVER, service.port, MPTCP) == "hello"
        converter.ends()
        assert "nobody has come" in converter.log


def test_only_a_converter_that_was_passed_its_sockets_may_end_unused(conv: World) -> None:
    log = conv.refused(ALL + '[timeouts]\nunused = "1s"\n', Exit.USAGE)
    assert "timeouts.unused: accepted: only with sockets" in log


# --- What it tells its service manager: sd_notify(3) ---


@contextmanager
def manager(world: World, watchdog: int) -> Iterator[tuple[socket.socket, tuple[str, ...]]]:
    """A service manager's socket, and the environment of its services: ``watchdog`` is in microseconds."""
    with (
        tempfile.TemporaryDirectory(dir=world.directory) as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
    ):
        listening.bind(f"{folder}/notify")
        listening.settimeout(10)
        yield listening, ("env", f"NOTIFY_SOCKET={folder}/notify", f"WATCHDOG_USEC={watchdog}")


def next_message(listening: socket.socket) -> list[str]:
    """The next message that is no sign of life."""
    while True:
        lines = listening.recv(4096).decode().split()
        if lines != ["WATCHDOG=1"]:
            return [line.partition("=")[0] + "=1" if line.startswith("MONOTONIC") else line for line in lines]


def test_service_manager_is_told_of_every_state(conv: World) -> None:
    config = ALL + '[timeouts]\ndrain = "5s"\n'
    with (
        manager(conv, 150_000) as (listening, environment),
        conv.converter(config, *environment) as converter,
    ):
        assert next_message(listening) == ["READY=1"]
        signs = [listening.recv(100).strip() for _ in range(3)]
        assert signs == [b"WATCHDOG=1"] * 3
        converter.reload(ALL)
        assert next_message(listening) == ["RELOADING=1", "MONOTONIC_USEC=1"]
        assert next_message(listening) == ["READY=1"]
        with conv.joined("connect"):
            converter.popen.terminate()
            assert next_message(listening) == ["STOPPING=1"]
        converter.ends()


def test_the_service_manager_is_told_which_process_is_the_main_one(conv: World) -> None:
    with manager(conv, 30_000_000) as (listening, environment), upgradable(conv, ALL, *environment) as converter:
        assert next_message(listening) == ["READY=1"]
        new = hand_over(converter)
        assert next_message(listening) == ["READY=1"]
        assert next_message(listening) == [f"MAINPID={new}"]

"""An upgrade of the native converter: a new process takes the sockets over, the old one lets its connections end."""

import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.netns.converter_clients import get, hears, joined, read_all, seconds_to_reset, take, take_head
from tests.netns.converter_services import greet
from tests.netns.converter_world import ALL, MPTCP, SERVER, Converter, World, needs_tools, start
from tests.netns.test_converter_reload import backlogs
from tests.netns.test_converter_service_manager import manager, next_message
from tests.netns.world import eventually

pytestmark = needs_tools
SIZE = 4 << 20


@contextmanager
def upgradable(world: World, config: str = ALL, *environment: str) -> Iterator[Converter]:
    """A converter whose program is a copy that can be replaced; at the end it is gone, and who came after it."""
    with tempfile.TemporaryDirectory(dir=world.directory) as name:
        copied = f'cp "$0" {name}/program && exec {name}/program "$@"'
        converter = start(world.gateway, Path(name), config, *environment, "sh", "-c", copied)
        try:
            converter.wait_for("listening")
            eventually(lambda: converter.status()["pid"] == converter.pid)
            yield converter
        finally:
            # Nobody has the socket any more if the last one was told to end.
            with suppress(OSError):
                os.kill(converter.status()["pid"], signal.SIGKILL)
            converter.popen.kill()
            converter.popen.wait()


def hand_over(converter: Converter) -> int:
    """Put a new program in place of the old one and hand over to it; returns its process."""
    program = converter.directory / "program"
    shutil.copy(program, program.with_suffix(".new"))
    program.with_suffix(".new").replace(program)
    before = converter.status()["pid"]
    os.kill(before, signal.SIGUSR2)
    eventually(lambda: converter.status()["pid"] != before, 10)
    return int(converter.status()["pid"])


def test_a_download_goes_on_to_its_end_and_new_clients_are_served_by_the_new_program(conv: World) -> None:
    begin = threading.Event()

    def late(connection: socket.socket) -> None:
        take_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % SIZE)
        begin.wait(30)
        connection.sendall(bytes(SIZE))

    with upgradable(conv) as converter, conv.serving(late) as slow, conv.serving(greet) as service:
        with get(conv, "absolute", slow.port, protocol=MPTCP) as client:
            take_head(client)
            new = hand_over(converter)
            assert Path(f"/proc/{new}/exe").readlink() == converter.directory / "program"
            assert converter.popen.poll() is None
            assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"
            assert converter.status()["listeners"][0]["accepted"] == 1
            begin.set()
            assert len(take(client, SIZE)) == SIZE
            client.shutdown(socket.SHUT_WR)
            assert read_all(client) == (b"", "closed")
        assert converter.popen.wait(10) == 0
        assert converter.status()["pid"] == new
        assert converter.metrics()["tributary_converter_open_connections"] == 0


def test_nobody_is_refused_while_it_is_handed_over_again_and_again(conv: World) -> None:
    with upgradable(conv) as converter, conv.serving(greet) as service:
        over = threading.Event()
        heard: list[str] = []

        def ask() -> None:
            while not over.is_set():
                heard.append(hears(conv, "connect", SERVER, service.port, MPTCP))

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for _ in range(3):
                hand_over(converter)
        finally:
            over.set()
            asking.join()
        assert set(heard) == {"hello"}


def test_a_wrong_configuration_is_not_handed_over_to(conv: World) -> None:
    with upgradable(conv) as converter, conv.serving(greet) as service:
        converter.write("wokers = 3\n")
        converter.popen.send_signal(signal.SIGUSR2)
        converter.wait_for("not handed over, the successor ended: exit status: 64")
        assert converter.status()["pid"] == converter.pid
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"
        converter.write(ALL)
        assert hand_over(converter) != converter.pid


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
        converter.write(ALL.replace(line, changed))
        converter.popen.send_signal(signal.SIGUSR2)
        converter.wait_for("not handed over, the successor ended: exit status: 64")
        assert f"{key} of a listener can change by a restart only" in converter.log
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"


def test_a_hand_over_changes_the_backlog(conv: World) -> None:
    with upgradable(conv) as converter, conv.serving(greet) as service:
        converter.write("[limits]\nbacklog = 77\n" + ALL)
        hand_over(converter)
        assert backlogs(conv) == {"77"}
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"


def test_a_successor_that_fails_late_leaves_everything_to_who_serves(conv: World) -> None:
    limit = ("setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw")
    with upgradable(conv, ALL, *limit) as converter, conv.serving(greet) as service:
        # A packet socket is among the last things that it opens.
        changed = ALL.replace('kind = "convert"', 'kind = "convert"\nearly_syn = true')
        converter.write("[limits]\nbacklog = 77\n" + changed)
        converter.popen.send_signal(signal.SIGUSR2)
        converter.wait_for("not handed over, the successor ended: exit status: 77")
        assert converter.status()["pid"] == converter.pid
        assert sorted(file.name for file in converter.directory.glob("control*")) == ["control"]
        assert backlogs(conv) == {"4096"}
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"
        converter.write(ALL)
        assert hand_over(converter) != converter.pid


def test_connections_that_do_not_end_in_time_are_reset(conv: World) -> None:
    with upgradable(conv, ALL + '[timeouts]\nhand_over = "300ms"\n') as converter, joined(conv, "connect", MPTCP):
        hand_over(converter)
        assert converter.popen.wait(10) == 1
        converter.wait_for("1 connections had not ended in time")


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_the_new_one_lives_without_the_old_one(conv: World, sent: signal.Signals) -> None:
    config = ALL + '[timeouts]\ndrain = "300ms"\n'
    with upgradable(conv, config) as converter, conv.serving(greet) as service, joined(conv, "connect", MPTCP):
        hand_over(converter)
        converter.popen.send_signal(sent)
        converter.popen.wait(10)
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"


def is_gone(converter: Converter) -> bool:
    """Whether the last process has ended: its socket goes with it."""
    return not (converter.directory / "control").exists()


@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_who_is_told_to_end_after_a_hand_over_waits_for_those_before(conv: World, times: int) -> None:
    """As by systemctl stop, which tells the main process alone and kills who is left when that one has ended."""
    with upgradable(conv) as converter, joined(conv, "connect", MPTCP) as (client, server):
        new = [hand_over(converter) for _ in range(times)][-1]
        os.kill(new, signal.SIGTERM)
        eventually(lambda: converter.status()["draining"])
        sending = threading.Thread(target=server.sendall, args=(bytes(SIZE),))
        sending.start()
        assert len(take(client, SIZE)) == SIZE
        sending.join()
        assert converter.popen.poll() is None
        assert converter.status()["pid"] == new
        server.shutdown(socket.SHUT_WR)
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == (b"", "closed")
        assert converter.popen.wait(10) == 0
        eventually(lambda: is_gone(converter))


@pytest.mark.parametrize("again", [False, True], ids=["deadline", "second-signal"])
def test_connections_of_before_a_hand_over_have_no_longer_than_a_drain(conv: World, again: bool) -> None:
    limit = "10s" if again else "500ms"
    with (
        upgradable(conv, ALL + f'[timeouts]\ndrain = "{limit}"\n') as converter,
        joined(conv, "connect", MPTCP) as (client, server),
    ):
        new = hand_over(converter)
        os.kill(new, signal.SIGTERM)
        if again:
            eventually(lambda: converter.status()["draining"])
            os.kill(new, signal.SIGTERM)
        assert converter.popen.wait(5) == 1
        assert seconds_to_reset(client) < 1
        assert seconds_to_reset(server) < 1
        eventually(lambda: is_gone(converter))


def test_the_service_manager_is_told_which_process_is_the_main_one(conv: World) -> None:
    with tempfile.TemporaryDirectory(dir=conv.directory) as name, manager(Path(name)) as listening:
        environment = ("env", f"NOTIFY_SOCKET={name}/notify", "WATCHDOG_USEC=30000000")
        with upgradable(conv, ALL, *environment) as converter:
            assert next_message(listening) == ["READY=1"]
            new = hand_over(converter)
            assert next_message(listening) == ["READY=1"]
            assert next_message(listening) == [f"MAINPID={new}"]

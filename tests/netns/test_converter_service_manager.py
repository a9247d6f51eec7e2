"""The native converter and its service manager: sockets that it is passed, and states that it tells."""

import os
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.netns.converter_clients import hears, joined
from tests.netns.converter_services import greet
from tests.netns.converter_world import (
    ALL,
    CLIENTS,
    EXTRA,
    GATEWAY,
    LISTENERS,
    MPTCP,
    SERVER,
    TCP,
    Converter,
    World,
    needs_tools,
    start,
)
from tests.netns.world import eventually, program
from tributary.settings.errors import Exit

pytestmark = needs_tools


@contextmanager
def activated(world: World, directory: Path, config: str, protocol: int) -> Iterator[Converter]:
    """A converter that is passed a listening socket for port 3128, as systemd does (sd_listen_fds(3))."""
    converter = start(world.gateway, directory, config, *program("passed_socket", str(protocol)))
    try:
        eventually(lambda: converter.popen.poll() is not None or "listening" in converter.log)
        yield converter
    finally:
        converter.popen.kill()
        converter.popen.wait()


@pytest.mark.parametrize("protocol", [MPTCP, TCP], ids=["mptcp", "tcp"])
def test_passed_socket_is_used_as_it_is(conv: World, protocol: int) -> None:
    config = CLIENTS + LISTENERS.partition('[[listen]]\nkind = "socks5"')[0]
    with (
        tempfile.TemporaryDirectory(dir=conv.directory) as directory,
        activated(conv, Path(directory), config, protocol) as converter,
        conv.serving(greet) as service,
    ):
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"
        with joined(conv, "connect", MPTCP) as (client, server):
            client.sendall(b"x")
            assert server.recv(1) == b"x"
            assert ("tcp-ulp-mptcp" in conv.gateway.run("ss", "-Htni", "sport", "= :3128")) == (protocol == MPTCP)
            # Clients that vanish without a word are found.
            assert "timer:(keepalive" in conv.gateway.run("ss", "-Htno", "sport", "= :3128")
        assert ("without SocketProtocol=mptcp" in converter.log) == (protocol == TCP)
        assert converter.status()["listeners"][0]["mptcp"] == (protocol == MPTCP)


def test_passed_socket_is_passed_on_as_it_is(conv: World) -> None:
    """By a restart it would be the same, so a hand-over that refused it would be one that can never be."""
    config = CLIENTS + LISTENERS.partition('[[listen]]\nkind = "socks5"')[0]
    with (
        tempfile.TemporaryDirectory(dir=conv.directory) as directory,
        activated(conv, Path(directory), config, TCP) as converter,
        conv.serving(greet) as service,
    ):
        converter.popen.send_signal(signal.SIGUSR2)
        new = eventually(lambda: converter.status()["pid"] != converter.pid and converter.status()["pid"])
        try:
            assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"
            assert converter.popen.wait(10) == 0
        finally:
            os.kill(new, signal.SIGKILL)


def test_passed_socket_that_nobody_wants_is_named_and_closed(conv: World) -> None:
    config = CLIENTS + EXTRA
    with (
        tempfile.TemporaryDirectory(dir=conv.directory) as directory,
        activated(conv, Path(directory), config, MPTCP) as converter,
    ):
        converter.wait_for("no listener has this address")
        with pytest.raises(ConnectionRefusedError):
            conv.connect(GATEWAY, 3128)


def test_a_converter_that_nobody_uses_ends_and_leaves_its_socket_to_who_passed_it(conv: World) -> None:
    config = CLIENTS + '[timeouts]\nunused = "1s"\n' + LISTENERS.partition('[[listen]]\nkind = "socks5"')[0]
    with (
        tempfile.TemporaryDirectory(dir=conv.directory) as directory,
        activated(conv, Path(directory), config, MPTCP) as converter,
        conv.serving(greet) as service,
    ):
        with joined(conv, "connect", MPTCP) as (client, server):
            time.sleep(1.5)
            client.sendall(b"x")
            assert server.recv(1) == b"x"
        assert hears(conv, "connect", SERVER, service.port, MPTCP) == "hello"
        assert converter.popen.wait(10) == 0
        assert "nobody has come" in converter.log


def test_only_a_converter_that_was_passed_its_sockets_may_end_unused(conv: World) -> None:
    with tempfile.TemporaryDirectory(dir=conv.directory) as directory:
        converter = start(conv.gateway, Path(directory), ALL + '[timeouts]\nunused = "1s"\n')
        assert converter.popen.wait(10) == Exit.USAGE
        assert "timeouts.unused: accepted: only with sockets" in converter.log


@contextmanager
def manager(directory: Path) -> Iterator[socket.socket]:
    """A service manager's end of the notification socket (sd_notify(3))."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(directory / "notify"))
        listening.settimeout(10)
        yield listening


def next_message(listening: socket.socket) -> list[str]:
    """The next message that is no sign of life."""
    while True:
        lines = listening.recv(4096).decode().split()
        if lines != ["WATCHDOG=1"]:
            return [line.partition("=")[0] + "=1" if line.startswith("MONOTONIC") else line for line in lines]


def test_service_manager_is_told_of_every_state(conv: World) -> None:
    with tempfile.TemporaryDirectory(dir=conv.directory) as name, manager(Path(name)) as listening:
        environment = ("env", f"NOTIFY_SOCKET={name}/notify", "WATCHDOG_USEC=150000")
        with conv.converter(ALL + '[timeouts]\ndrain = "5s"\n', None, *environment) as converter:
            assert next_message(listening) == ["READY=1"]
            signs = [listening.recv(100).strip() for _ in range(3)]
            assert signs == [b"WATCHDOG=1"] * 3
            converter.reload(ALL)
            assert next_message(listening) == ["RELOADING=1", "MONOTONIC_USEC=1"]
            assert next_message(listening) == ["READY=1"]
            with joined(conv, "connect"):
                converter.popen.terminate()
                assert next_message(listening) == ["STOPPING=1"]
            assert converter.popen.wait(10) == 0

"""The loop, with real signals, pipes and sockets, and a daemon that notes what it is asked."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import pytest

from tributary.daemons import loop as loop_module
from tributary.daemons.logs import Log, as_text
from tributary.daemons.loop import LONGEST_WAIT, Loop
from tributary.daemons.request_server import Server
from tributary.settings.errors import CommandError, Exit

STOP, LEAVE, RELOAD = signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP


def kill(number: int) -> None:
    os.kill(os.getpid(), number)


class Noting:
    """A daemon that does what the test says, turn by turn, and is stopped when that is done."""

    def __init__(
        self, *acts: Callable[[], object], on_reload: Callable[[], object] = lambda: None, wait: float = 0.0
    ) -> None:
        self.acts = list(acts)
        self.on_reload = on_reload
        self.status = "well"
        self.wait = wait
        self.turns: list[float] = []

    @property
    def deadline(self) -> float:
        return time.monotonic() + self.wait

    def turn(self) -> None:
        self.turns.append(time.monotonic())
        if self.acts:
            self.acts.pop(0)()
        else:
            kill(STOP)

    def reload(self) -> None:
        self.on_reload()


class Ground:
    def __init__(self, stack: ExitStack, manager: socket.socket) -> None:
        self.stack, self.manager = stack, manager
        self.written = StringIO()
        self.reader, self.writer = socket.socketpair()
        stack.enter_context(self.reader)
        stack.enter_context(self.writer)
        listener = socket.create_server(("127.0.0.1", 0))
        self.server = stack.enter_context(Server(listener, b"\n", 100, b"too long"))

    def loop(self) -> Loop:
        made = self.stack.enter_context(Loop(Log(as_text, self.written), [LEAVE], reloads=True))
        made.serve(self.server, lambda request, _: request.upper())
        made.watch(self.reader)
        return made

    def told(self) -> list[str]:
        found = []
        while True:
            try:
                found.append(self.manager.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    with ExitStack() as stack:
        manager = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.delenv("WATCHDOG_USEC", raising=False)
        yield Ground(stack, manager)


def test_a_stop_signal_ends_it_and_is_named(ground: Ground, capfd: pytest.CaptureFixture[str]) -> None:
    assert ground.loop().run(Noting()) == STOP
    assert ground.told() == ["READY=1\nSTATUS=well", "STOPPING=1"]
    assert capfd.readouterr().out == "ready\n"
    assert ground.loop().run(Noting(lambda: kill(LEAVE))) == LEAVE


def test_a_stop_signal_goes_before_a_reload(ground: Ground) -> None:
    reloads: list[None] = []

    def both() -> None:
        kill(RELOAD)
        kill(STOP)

    daemon = Noting(both, on_reload=lambda: reloads.append(None))
    assert ground.loop().run(daemon) == STOP
    assert not reloads


def test_a_reload_is_notified_from_its_start_to_its_end(ground: Ground) -> None:
    reloads: list[None] = []
    ground.loop().run(Noting(lambda: kill(RELOAD), on_reload=lambda: reloads.append(None)))
    assert len(reloads) == 1
    _, reloading, ready, _ = ground.told()
    assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=") and ready == "READY=1"
    assert "reloaded" in ground.written.getvalue()


def test_settings_that_are_wrong_are_logged_and_the_loop_goes_on(ground: Ground) -> None:
    def refuse() -> None:
        raise CommandError(Exit.USAGE, "rate: what is that?")

    daemon = Noting(lambda: kill(RELOAD), lambda: None, on_reload=refuse)
    assert ground.loop().run(daemon) == STOP
    assert "not reloaded" in ground.written.getvalue() and "what is that?" in ground.written.getvalue()
    assert ground.told()[2] == "READY=1"


def test_a_reload_that_ends_the_loop_is_notified_to_its_end_too(ground: Ground) -> None:
    def fail() -> None:
        raise OSError("the kernel refused")

    with pytest.raises(OSError, match="the kernel refused"):
        ground.loop().run(Noting(lambda: kill(RELOAD), on_reload=fail))
    assert ground.told()[-1] == "READY=1"


def test_what_a_turn_raises_ends_it_and_it_may_be_run_again_without_a_second_ready(
    ground: Ground, capfd: pytest.CaptureFixture[str]
) -> None:
    loop = ground.loop()
    daemon = Noting(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loop.run(daemon)
    assert loop.run(daemon) == STOP
    assert capfd.readouterr().out == "ready\n"
    assert [told.splitlines()[0] for told in ground.told()] == ["READY=1", "STOPPING=1"]


@pytest.mark.parametrize(("wait", "least", "most"), [(0.2, 0.19, LONGEST_WAIT), (3600.0, 0, 3 * LONGEST_WAIT)])
def test_a_turn_comes_at_the_deadline_or_long_before(ground: Ground, wait: float, least: float, most: float) -> None:
    daemon = Noting(lambda: None, wait=wait)
    ground.loop().run(daemon)
    first, second = daemon.turns
    assert least < second - first < most


def test_a_reload_comes_by_itself_once_unless_it_is_taken_back(ground: Ground) -> None:
    reloads: list[float] = []
    daemon = Noting(lambda: None, on_reload=lambda: reloads.append(time.monotonic()), wait=3600.0)
    loop, began = ground.loop(), time.monotonic()
    loop.reload_in(0.1)
    loop.run(daemon)
    assert [0.1 <= moment - began < LONGEST_WAIT / 2 for moment in reloads] == [True]
    loop.reload_in(0.0)
    loop.reload_in(None)
    loop.run(daemon)
    assert len(reloads) == 1


def test_a_reload_that_was_due_comes_again_until_it_succeeds(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that a signal brought before: what is on trial is in force until then."""
    monkeypatch.setattr(loop_module, "TRY_AGAIN", 0.1)
    reloads: list[float] = []

    def fail_twice() -> None:
        reloads.append(time.monotonic())
        if len(reloads) < 3:
            raise CommandError(Exit.USAGE, "rate: what is that?")

    daemon = Noting(lambda: kill(RELOAD), *[lambda: None] * 4, on_reload=fail_twice, wait=0.15)
    loop = ground.loop()
    loop.reload_in(0.2)
    loop.run(daemon)
    assert len(reloads) == 3 and reloads[2] - reloads[1] > 0.09


def test_a_readable_descriptor_and_a_thread_bring_a_turn_at_once(ground: Ground) -> None:
    ground.writer.send(b"x")
    daemon = Noting(lambda: ground.reader.recv(1), wait=3600.0)
    began = time.monotonic()
    ground.loop().run(daemon)
    assert daemon.turns[0] - began < LONGEST_WAIT / 2
    loop, daemon, began = ground.loop(), Noting(lambda: None, lambda: None, wait=3600.0), time.monotonic()
    threading.Timer(0.1, loop.wake).start()
    loop.run(daemon)
    assert daemon.turns[0] - began < LONGEST_WAIT / 2


def test_requests_are_answered_while_the_daemon_waits(ground: Ground) -> None:
    answers: list[bytes] = []

    def ask() -> None:
        with socket.create_connection(ground.server.address, timeout=10) as client:
            client.sendall(b"hello\n")
            answers.append(client.recv(100))
        kill(STOP)

    daemon = Noting(*[lambda: None] * 20, wait=3600.0)
    client = threading.Thread(target=ask)
    client.start()
    ground.loop().run(daemon)
    client.join()
    assert answers == [b"HELLO"] and daemon.acts


def test_a_new_status_is_sent_once(ground: Ground) -> None:
    daemon = Noting()
    daemon.acts = [lambda: setattr(daemon, "status", "1 of 2 links up"), lambda: None]
    ground.loop().run(daemon)
    assert ground.told() == ["READY=1\nSTATUS=well", "STATUS=1 of 2 links up", "STOPPING=1"]


def test_the_watchdog_is_notified_twice_as_often_as_it_asks(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    daemon = Noting(*[lambda: None] * 5, wait=3600.0)
    ground.loop().run(daemon)
    assert ground.told().count("WATCHDOG=1") >= 4
    assert all(later - sooner < 0.2 for sooner, later in zip(daemon.turns, daemon.turns[1:], strict=False))

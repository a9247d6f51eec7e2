"""Control sockets as files: whose they are, who has them, and what a killed daemon leaves."""

import grp
import json
import math
import os
import selectors
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests import ordinary_user
from tests.refusals import command_error
from tributary.daemons import control, directories
from tributary.daemons.control import Control, is_served
from tributary.daemons.request_server import Server
from tributary.settings.errors import CommandError, Exit

CONTROL = Control(
    "weather",
    "weather daemon",
    longest=100,
    timeout=10.0,
    unprivileged=("now",),
    steering=("rain",),
    privileged=("snow",),
)


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(directories, "RUN", tmp_path / "run")
    monkeypatch.setattr(control, "GROUP", "no-such-group-at-all")
    return tmp_path / "run"


@contextmanager
def answering(handle: control.Handler) -> Iterator[None]:
    ended = threading.Event()
    with CONTROL.server() as server, selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)

        def loop() -> None:
            while not ended.is_set():
                selector.select(0.02)
                server.serve(lambda request, peer: CONTROL.respond(request, peer, handle))

        thread = threading.Thread(target=loop)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    "given", [{}, {"seconds": None}, *({"seconds": each} for each in ("soon", -1, math.nan, math.inf, 10**400))]
)
def test_a_trial_without_an_end_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(control.REFUSED):
        control.trial_seconds(given)


def test_a_daemon_answers_at_its_file_and_takes_it_away(run: Path) -> None:
    with answering(lambda asked: {"sky": asked["where"]}):
        assert CONTROL.ask("now", where="grey") == {"sky": "grey"}
        assert is_served("weather") and not is_served("weathe")
        with socket.socket(socket.AF_UNIX) as by_link:
            by_link.connect(str(run / "weather.sock"))
    assert list(run.iterdir()) == [] and not is_served("weather")
    with command_error(Exit.UNAVAILABLE, "no weather daemon runs in this network namespace"):
        CONTROL.ask("now")


def test_a_command_that_is_not_known_is_refused_whoever_asks() -> None:
    with answering(lambda _: {}), pytest.raises(CommandError) as caught:
        CONTROL.ask("hail")
    assert caught.value.code == (Exit.USAGE if os.geteuid() == 0 else Exit.NO_PERMISSION)


def test_the_file_is_roots_alone_where_there_is_no_group_whatever_the_umask(run: Path) -> None:
    before = os.umask(0)
    try:
        with CONTROL.server():
            assert stat.S_IMODE(CONTROL.path.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert stat.S_IMODE(run.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file to a group")
def test_the_file_is_the_groups_too_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "GROUP", "nogroup")
    with CONTROL.server():
        found = CONTROL.path.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o660, 65534)


def test_a_second_daemon_is_refused_and_who_holds_the_former_abstract_name_keeps_none_out() -> None:
    with answering(lambda _: {}):
        with command_error(Exit.IN_USE, "a weather daemon already runs in this network namespace"):
            CONTROL.server().__enter__()
        assert CONTROL.ask("now") == {}
    # Anybody can bind an abstract name before a daemon does; a file in root's directory nobody else can make.
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("\0tributary/weather")
        with answering(lambda _: {}):
            assert CONTROL.ask("now") == {}


def test_a_daemon_that_begins_as_another_one_ends_can_be_asked(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close, next_ones = Server.close, ExitStack()

    def closed(server: Server) -> None:
        close(server)
        monkeypatch.undo()
        monkeypatch.setattr(directories, "RUN", run)
        next_ones.enter_context(answering(lambda _: {"sky": "blue"}))

    with next_ones:
        monkeypatch.setattr(Server, "close", closed)
        with CONTROL.server():
            pass
        assert CONTROL.ask("now") == {"sky": "blue"}
        assert (run / "weather.sock").exists()


@pytest.mark.parametrize("before", ["x ", "\n0: 2 0 10000 1 1 77 "])
@pytest.mark.parametrize("is_left", [False, True])
def test_a_socket_whose_path_only_ends_in_the_daemons_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, is_left: bool
) -> None:
    """Anyone may make folders with such names, and /proc/net/unix has the path as it was given."""
    monkeypatch.chdir(tmp_path)
    with tempfile.TemporaryDirectory(dir="/tmp") as short, socket.socket(socket.AF_UNIX) as strange:
        monkeypatch.setattr(directories, "RUN", Path(short))
        if is_left:
            with socket.socket(socket.AF_UNIX) as killed:
                killed.bind(str(CONTROL.path))
        Path(f"{before}{CONTROL.path.parent}").mkdir(parents=True)
        strange.bind(f"{before}{CONTROL.path}")
        strange.listen()
        assert f"{before}{CONTROL.path}\n" in Path("/proc/net/unix").read_text()
        assert not is_served("weather")


def test_what_a_killed_daemon_left_is_no_daemon() -> None:
    directories.make_run()
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(CONTROL.path))
    assert not is_served("weather")
    with answering(lambda _: {}):
        assert CONTROL.ask("now") == {}


def test_another_namespaces_daemon_keeps_the_short_name_and_each_is_asked_for_itself(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(lambda _: {"who": "first"}):
        short = (run / "weather.sock").readlink()
        monkeypatch.setattr(directories, "namespace", lambda: 7)
        with pytest.raises(CommandError, match="no weather daemon runs in this network namespace"):
            CONTROL.ask("now")
        with answering(lambda _: {"who": "second"}):
            assert CONTROL.ask("now") == {"who": "second"}
            assert (run / "weather.sock").readlink() == short
        assert (run / "weather.sock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="root is let in everywhere, and nobody has to be somebody else")
def test_a_refused_client_gets_advice(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    with answering(lambda _: {}):
        told = _as_nobody(lambda: CONTROL.ask("now"))
    assert told == "weather now needs root or the group no-such-group-at-all: use sudo"


def _as_nobody(act: Callable[[], object]) -> str:
    """The message of the CommandError that ``act`` ends with, in a process of nobody's."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        try:
            act()
        except CommandError as failure:
            os.write(writer, str(failure).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        return told.read()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be somebody else")
@pytest.mark.parametrize(
    ("group", "command", "code"), [("games", "rain", 0), ("games", "snow", 77), ("mail", "rain", 77)]
)
def test_a_group_may_steer_and_no_more(group: str, command: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "GROUP", group)
    monkeypatch.setattr(control, "STEERING_GROUP", "games")
    member = [grp.getgrnam(group).gr_gid]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        monkeypatch.setattr(directories, "RUN", Path(folder) / "run")
        with answering(lambda _: {}):
            asked = subprocess.run(
                [sys.executable, "-c", _ASK, str(CONTROL.path), command],
                user=65534,
                group=65534,
                extra_groups=member,
                capture_output=True,
                text=True,
                check=True,
            )
    assert json.loads(asked.stdout).get("code", 0) == code


_ASK = """
import json, socket, sys
with socket.socket(socket.AF_UNIX) as asking:
    asking.connect(sys.argv[1])
    asking.sendall(json.dumps({"command": sys.argv[2]}).encode() + b"\\n")
    print(asking.makefile().read())
"""


@ordinary_user.needs_root
def test_no_ordinary_user_keeps_a_daemon_from_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()

    def start() -> None:
        with CONTROL.server():
            started.set()

    with ordinary_user.folder() as folder:
        monkeypatch.setattr(directories, "RUN", folder)
        with ordinary_user.holding(folder):
            daemon = threading.Thread(target=start, daemon=True)
            daemon.start()
            assert started.wait(10)
            daemon.join(10)


def test_a_program_that_answers_unasked_may_have_closed_before_it_is_read(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a converter does: to send nothing there would fail."""
    closed, set_timeout = threading.Event(), socket.socket.settimeout
    run.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run / "unasked.sock"))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            connection.sendall(b'{"sky": "blue"}')
            connection.close()
            closed.set()

        def late(connection: socket.socket, seconds: float | None) -> None:
            assert closed.wait(60)
            set_timeout(connection, seconds)

        monkeypatch.setattr(socket.socket, "settimeout", late)
        thread = threading.Thread(target=answer)
        thread.start()
        assert control.exchanged(run / "unasked.sock", b"", 60.0) == {"sky": "blue"}
        thread.join()

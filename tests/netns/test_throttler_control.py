import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.netns.links_world import GATEWAY, connection
from tests.netns.throttler_world import ask, elements, status, throttled, throttler
from tests.netns.world import ENVIRONMENT, Child, eventually, in_namespace, program, ready
from tests.ordinary_user import NOBODY
from tributary.settings.errors import Exit

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("world")]

SOCKET = Path("/run/tributary/throttler.sock")


def command(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of nobody's."""
    called = in_namespace(GATEWAY, *NOBODY, sys.executable, "-m", module, *arguments)
    return subprocess.run(called, capture_output=True, text=True, check=False, env=ENVIRONMENT)


@contextmanager
def nobody_connected(folder: Path, count: int, request: bytes) -> Iterator[Child]:
    """Nobody's connections, each with that request."""
    file = folder / "request"
    file.write_bytes(request)
    for each in (folder, *folder.parents):
        if not each.stat().st_mode & 0o001:
            each.chmod(each.stat().st_mode | 0o055)
    client = program("control_client", str(SOCKET), str(count), str(file))
    with ready(*in_namespace(GATEWAY, *NOBODY, *client)) as child:
        yield child


def let_everybody_in() -> None:
    """As the members of the group may."""
    SOCKET.chmod(0o666)


def test_who_is_neither_root_nor_in_the_group_may_not_even_ask() -> None:
    with throttler("kernel"):
        assert SOCKET.stat().st_mode & 0o007 == 0
        refused = command("command", "sessions")
        assert (refused.returncode, "needs root or the group tributary" in refused.stderr) == (Exit.NO_PERMISSION, True)
    assert not SOCKET.exists()


def test_who_is_not_root_may_ask_and_change_nothing() -> None:
    with throttled("kernel"):
        let_everybody_in()
        (session,) = status()["sessions"]
        for arguments, code in (
            (("command", "sessions"), 0),
            (("command", "explain", session["token"]), 0),
            (("throttler", "set", "x", "rate=1mbit"), Exit.NO_PERMISSION),
            (("throttler", "unset", "wired-slow"), Exit.NO_PERMISSION),
            (("throttler", "reload"), Exit.NO_PERMISSION),
        ):
            result = command(*arguments)
            assert result.returncode == code, result.stderr


def test_connections_at_rest_do_not_lock_root_out(tmp_path: Path) -> None:
    """Sixteen connections that say nothing, as nobody, and then all the room that there is."""
    with throttler("kernel"):
        let_everybody_in()
        for count in (16, 100):
            with nobody_connected(tmp_path, count, b""):
                ask("set", "live", "path=wired", "rate=4mbit")
                assert [rule["name"] for rule in status()["rules"]] == ["live", "wired-slow"]
                ask("unset", "live")


def test_many_large_questions_at_once_delay_nothing(tmp_path: Path) -> None:
    """Fifteen times 9,000 ends to explain, as nobody: a join is seen and held as ever."""
    ends = json.dumps({"command": "explain", "ends": ["x"] * 9000}).encode() + b"\n"
    with throttler("kernel"):
        let_everybody_in()
        with nobody_connected(tmp_path, 15, ends) as asking, connection():
            eventually(elements, 5)
            eventually(lambda: asking.ask() == "15\n", 5)


def test_a_request_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    with throttler("kernel") as child:
        let_everybody_in()
        with nobody_connected(tmp_path, 1, b"[" * 60000 + b"\n"):
            assert status()["rules"] and child.poll() is None

"""The console beside a throttler with more sessions than it lists."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from experiments.testbed.node import Node
from tests.netns.console_world import FREE, Browser, console
from tests.netns.links_world import GATEWAY
from tests.netns.test_console import remotely
from tests.netns.world import serving
from throttler.policy.model import read
from throttler.policy.quotas import Quotas
from throttler.service.control import CONTROL as THROTTLER
from throttler.service.engine import Engine
from throttler.service.query import SessionQuery
from throttler.service.report import Measured, Report, Subject
from throttler.service.status import encode, encode_found
from throttler.sources.source import SourceKind
from tributary.mptcp.events import SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings.files import check

pytestmark = pytest.mark.usefixtures("world")
MANY = 10_000


def report(folder: Path) -> Report:
    """The throttler's own, of sessions that nobody had to open."""
    file = folder / "policy.toml"
    file.write_text(FREE)
    engine = Engine(read(file), Quotas(), datetime.now)
    names = [FourTuple("10.0.1.1", 3128, f"10.9.{number // 200}.{number % 200}", 1000) for number in range(MANY)]
    engine.handle([SubflowEstablished(1, number, name, "wired", initial=True) for number, name in enumerate(names)], 0)
    subject = Subject(engine.snapshot(), frozenset(), SourceKind.KERNEL, Counter(), {}, file, 1.0)
    return Report(subject, Measured({}, {}), 10**9)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Of a console whose throttler is the report at a socket."""
    made = report(tmp_path)

    def answer(connection: socket.socket) -> None:
        asked = json.loads(connection.makefile().readline())
        if asked["command"] == "status":
            connection.sendall(json.dumps(encode(made.status)).encode())
        else:
            query = check(asked["query"], SessionQuery, where="sessions")
            connection.sendall(encode_found(made.found(query)))
        connection.close()

    with Node(GATEWAY, Path()).entered():
        path = THROTTLER.path
        path.parent.mkdir(exist_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen(64)
        try:
            with serving(listener, answer), console(tmp_path / "state") as (found, _):
                yield found
        finally:
            path.unlink()


def test_a_filter_finds_a_session_that_is_not_listed(browser: Browser) -> None:
    late = f"{MANY - 1:08x}"
    assert browser.get("look")["sessions_total"] == MANY
    for query in ("client=10.9.49.199", f"token={late}", f"token={late}&path=wired&sort=age&limit=5"):
        found = browser.get(f"sessions?{query}")
        assert (found["total"], [each["token"] for each in found["sessions"]]) == (1, [late])
    assert browser.get("sessions?limit=1000")["total"] == MANY
    assert browser.get("sessions?throttled=true")["total"] == browser.get("sessions?path=nowhere")["total"] == 0
    shown = json.loads(remotely(browser.port, "sessions", "--client", "10.9.49.199", "--json").stdout)["sessions"]
    assert [each["token"] for each in shown] == [late]
    assert "10.9.49.199" in remotely(browser.port, "sessions", late).stdout

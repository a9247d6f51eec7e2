"""The console beside a throttler with more sessions than it lists."""

import json
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import expect

from tests.netns.browser import WIDE, check_view, new_page
from tests.netns.console_world import FREE, Browser, console, throttler_stand_in
from tests.netns.test_console import remotely
from tests.netns.throttler_world import tributary
from throttler.policy.model import read
from throttler.policy.quotas import Quotas
from throttler.service.engine import Engine
from throttler.service.query import SessionQuery
from throttler.service.report import Measured, Report
from throttler.sources.source import SourceKind
from tributary.mptcp.events import SubflowEstablished
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings.files import check

pytestmark = pytest.mark.usefixtures("world")
MANY = 2_500


def report(folder: Path) -> Report:
    """The throttler's own, of sessions that nobody had to open."""
    file = folder / "policy.toml"
    file.write_text(FREE)
    engine = Engine(read(file), Quotas(), datetime.now)
    names = [FourTuple("10.0.1.1", 3128, f"10.9.{number // 200}.{number % 200}", 1000) for number in range(MANY)]
    engine.handle([SubflowEstablished(1, number, name, "wired", initial=True) for number, name in enumerate(names)], 0)
    snapshot, none = engine.snapshot(), frozenset[str]()
    return Report(snapshot, none, SourceKind.KERNEL, Counter(), {}, file, 1.0, Measured({}, {}), 10**9)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """Of a console whose throttler is the report at a socket."""
    made = report(tmp_path)

    def answer(connection: socket.socket) -> None:
        asked = json.loads(connection.makefile().readline())
        if asked["command"] == "status":
            connection.sendall(made.status.model_dump_json().encode())
        else:
            query = check(asked["query"], SessionQuery, where="sessions")
            connection.sendall(made.found(query).model_dump_json().encode())

    with throttler_stand_in(answer), console(tmp_path / "state") as (found, _):
        yield found


def test_a_filter_finds_a_session_that_is_not_listed(browser: Browser) -> None:
    late = f"{MANY - 1:08x}"
    assert browser.get("look")["sessions_total"] == MANY
    for query in ("client=10.9.12.99", f"token={late}", f"token={late}&path=wired&sort=age&limit=5"):
        found = browser.get(f"sessions?{query}")
        assert (found["total"], [each["token"] for each in found["sessions"]]) == (1, [late])
    assert browser.get("sessions?limit=1000")["total"] == MANY
    assert browser.get("sessions?throttled=true")["total"] == browser.get("sessions?path=nowhere")["total"] == 0
    shown = json.loads(remotely(browser.port, "sessions", "--client", "10.9.12.99", "--json").stdout)["sessions"]
    assert [each["token"] for each in shown] == [late]
    assert "10.9.12.99" in remotely(browser.port, "sessions", late).stdout


def tokens(found: dict[str, Any]) -> list[str]:
    return [each["token"] for each in found["sessions"]]


def test_all_sessions_are_listed_page_by_page(browser: Browser) -> None:
    pages = [browser.get(f"sessions?sort=client&limit=1000&offset={offset}") for offset in (0, 1000, 2000, 3000)]
    assert [(each["offset"], len(each["sessions"]), each["total"]) for each in pages] == [
        (0, 1000, MANY), (1000, 1000, MANY), (2000, 500, MANY), (3000, 0, MANY),
    ]  # fmt: skip
    assert [token for page in pages for token in tokens(page)] == [f"{number:08x}" for number in range(MANY)]
    for wrong in ("offset=-1", "offset=x", "offset=1000000000", "limit=1001", "sort=--age", "sort=rtt"):
        status, answer = browser.ask("GET", f"/api/v1/sessions?{wrong}")
        assert status == 400 and "accepted: " in answer["error"]


def test_the_command_lists_as_many_sessions_as_it_is_asked_for(browser: Browser) -> None:
    for limit, listed in ((1500, 1500), (10_000, MANY)):
        words = ("sessions", "--sort=-client", "--limit", str(limit), "--json")
        for text in (remotely(browser.port, *words).stdout, tributary(*words)):
            found = json.loads(text)
            assert found["total"] == MANY
            assert tokens(found) == [f"{number:08x}" for number in reversed(range(MANY - listed, MANY))]
    assert "the first 2,000 of 2,500" in remotely(browser.port, "sessions", "--limit", "2000").stdout
    assert "the first 1,000 of 2,500" in tributary("sessions")


def test_the_page_is_turned_and_filtered_by_keyboard(browser: Browser, chromium: Chromium) -> None:
    page = new_page(chromium, WIDE, dark=False)
    page.goto(f"http://127.0.0.1:{browser.port}/#/sessions")
    page.get_by_label("Sort by").select_option("client")
    expect(page.get_by_text("1 to 100 of 2,500 sessions that fit")).to_be_visible()
    page.get_by_role("button", name="Previous").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("101 to 200 of 2,500")).to_be_visible()
    expect(page.get_by_role("button", name="10.9.0.100", exact=False)).to_be_visible()
    expect(page.get_by_role("button", name="Next")).to_be_focused()
    check_view(page, WIDE)
    # A filter that is typed slowly outlives the looks.
    page.get_by_role("searchbox").press_sequentially("10.9.12.0/24", delay=200)
    expect(page.get_by_role("searchbox")).to_have_value("10.9.12.0/24")
    page.get_by_role("searchbox").press("Enter")
    expect(page.get_by_text("1 to 100 of 100 sessions")).to_be_visible()

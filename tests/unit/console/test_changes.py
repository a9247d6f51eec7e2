import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from command import box, mapping, steering
from console import changes
from console.changes import Changes, Subject
from console.journal import Book
from tributary.api.console import Entry
from tributary.daemons.control import Silent
from tributary.settings.errors import CommandError
from tributary.settings.units import PositiveRate

LTE = Subject("path", "lte", "limit")


class SlowPath:
    def __init__(self) -> None:
        self.limit: str | None = None
        self.set_to: list[str | None] = []
        self.pause = 0.0

    def set(self, _path: str, rate: PositiveRate | None) -> None:
        time.sleep(self.pause)
        self.limit = None if rate is None else str(rate)
        self.set_to.append(self.limit)


@pytest.fixture(autouse=True)
def lte(monkeypatch: pytest.MonkeyPatch) -> SlowPath:
    path = SlowPath()
    monkeypatch.setattr(box, "throttler", lambda _patience: None)
    monkeypatch.setattr(
        mapping, "paths", lambda _: [mapping.link(name="lte", kind="path", state="up", limit=path.limit)]
    )
    monkeypatch.setattr(steering, "limit", path.set)
    return path


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "journal.sqlite")


@pytest.fixture
def told() -> list[str | None]:
    return []


def changes_of(book: Book, told: list[str | None]) -> Changes:
    return Changes(book, lambda _who, change: told.append(change.after))


def test_of_a_drag_the_last_value_wins(book: Book, told: list[str | None], lte: SlowPath) -> None:
    lte.pause = 0.05

    async def drag() -> list[Entry | None]:
        changes = changes_of(book, told)
        return await asyncio.gather(*(changes.make("ada", LTE, f"{rate}mbit") for rate in range(1, 21)))

    entries = asyncio.run(drag())
    assert lte.set_to == ["1mbit", "20mbit"]
    assert [entry is not None for entry in entries] == [True, *[False] * 18, True]
    (line,) = book.newest(10)
    assert (line.before, line.after) == (None, "20mbit")
    assert told == ["1mbit", "20mbit"]


def test_what_is_refused_is_not_in_the_journal(book: Book, told: list[str | None]) -> None:
    with pytest.raises(CommandError, match="accepted: a rate"):
        asyncio.run(changes_of(book, told).make("ada", LTE, "wrong"))
    assert book.newest(10) == () and told == []


@pytest.mark.parametrize("what", ["enrol", "revoke", "limit"])
def test_what_no_answer_tells_of_is_in_the_journal_all_the_same(
    what: str, book: Book, told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have been done: a router may be in whose secret nobody has seen."""

    def ask(*_: object, **__: object) -> None:
        raise Silent("timed out")

    monkeypatch.setattr(changes, "GATEWAY", SimpleNamespace(ask=ask))
    monkeypatch.setattr(steering, "limit", ask)
    made = changes_of(book, told)
    with pytest.raises(Silent):
        asyncio.run(made.make("ada", LTE, "2mbit") if what == "limit" else getattr(made, what)("ada", "berlin"))
    (entry,) = book.newest(10)
    subject = "path lte" if what == "limit" else "router berlin"
    assert (entry.who, entry.subject, entry.after) == ("ada", subject, "not known") and told == ["not known"]


def test_a_change_is_undone_once(book: Book, told: list[str | None], lte: SlowPath) -> None:
    async def scene() -> None:
        changes = changes_of(book, told)
        made = await changes.make("ada", LTE, "2mbit")
        assert made is not None
        undone = await changes.undo("eve", made.id)
        assert undone is not None and (undone.who, undone.before, undone.after) == ("eve", "2mbit", None)
        with pytest.raises(CommandError, match="not undone yet"):
            await changes.undo("eve", made.id)
        with pytest.raises(CommandError):
            await changes.undo("eve", 999)

    asyncio.run(scene())
    assert lte.limit is None
    assert [entry.undone for entry in book.newest(10)] == [False, True]


def test_a_rate_is_written_as_the_daemons_write_it(book: Book, told: list[str | None]) -> None:
    entry = asyncio.run(changes_of(book, told).make("ada", LTE, "1000mbit"))
    assert entry is not None and entry.after == "1gbit"
    assert asyncio.run(changes_of(book, told).make("ada", LTE, "1000000kbit")) is None


def test_a_change_that_no_journal_takes_is_made_and_told(told: list[str | None], lte: SlowPath, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="it is done, but"):
        asyncio.run(changes_of(Book(tmp_path / "file" / "x.sqlite"), told).make("ada", LTE, "2mbit"))
    assert lte.limit == "2mbit" and told == ["2mbit"]


def test_a_links_role_and_rates_are_set_at_the_router_and_undone(
    book: Book, told: list[str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, str] = {"upload": "5mbit"}

    def ask(_command: str, link: str, key: str, value: str | None) -> None:
        assert link == "dsl"
        given.pop(key, None)
        if value is not None:
            given[key] = value

    router: Any = SimpleNamespace(ask=ask)
    monkeypatch.setattr(changes, "ROUTER", router)
    monkeypatch.setattr(box, "router", lambda _patience: {"wan": [{"name": "dsl", "set": given}]})

    async def scene() -> None:
        page = changes_of(book, told)
        for key, value in (("use", "backup"), ("upload", "2mbit"), ("download", "20mbit")):
            assert await page.make("ada", Subject("link", "dsl", key), value)
        assert given == {"use": "backup", "upload": "2mbit", "download": "20mbit"}
        for line in book.newest(10):
            await page.undo("ada", line.id)
        with pytest.raises(CommandError, match="nowhere: accepted: a link of the router: dsl"):
            await page.make("ada", Subject("link", "nowhere", "use"), "backup")

    asyncio.run(scene())
    assert given == {"upload": "5mbit"}

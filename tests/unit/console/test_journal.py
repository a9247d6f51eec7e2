"""The journal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from console.journal import Book, Change


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    made = Book(tmp_path / "new" / "journal.sqlite")
    yield made
    made.close()


def limit(before: str | None, after: str | None, path: str = "lte") -> Change:
    return Change(f"path {path}", "limit", before, after)


def test_a_change_is_a_line(book: Book) -> None:
    entry = book.add("ada", limit(None, "2mbit"), 100.0)
    assert (entry.who, entry.subject, entry.key, entry.before, entry.after) == (
        "ada",
        "path lte",
        "limit",
        None,
        "2mbit",
    )
    assert book.entry(entry.id) == entry and book.newest(10) == (entry,)
    assert book.entry(entry.id + 1) is None


def test_a_slider_that_is_dragged_is_one_line(book: Book) -> None:
    book.add("ada", limit(None, "9mbit"), 100.0)
    book.add("ada", limit("9mbit", "5mbit"), 100.1)
    entry = book.add("ada", limit("5mbit", "2mbit"), 104.0)
    assert (entry.before, entry.after) == (None, "2mbit")
    assert len(book.newest(10)) == 1


@pytest.mark.parametrize(("who", "path", "now"), [("eve", "lte", 101.0), ("ada", "dsl", 101.0), ("ada", "lte", 105.1)])
def test_other_changes_are_lines_of_their_own(book: Book, who: str, path: str, now: float) -> None:
    book.add("ada", limit(None, "9mbit"), 100.0)
    book.add(who, limit("9mbit", "5mbit", path), now)
    assert [entry.before for entry in book.newest(10)] == ["9mbit", None]


def test_what_is_undone_is_marked_and_not_gone_on_with(book: Book) -> None:
    first = book.add("ada", limit(None, "9mbit"), 100.0)
    assert book.mark_undone(first.id).undone
    second = book.add("ada", limit("9mbit", None), 100.5)
    assert second.id != first.id and not second.undone


def test_the_newest_thousand_are_kept(book: Book) -> None:
    for number in range(1010):
        book.add("ada", limit(None, f"{number}mbit"), number * 10.0)
    entries = book.newest(5000)
    assert len(entries) == 1000 and entries[0].after == "1009mbit" and entries[-1].after == "10mbit"

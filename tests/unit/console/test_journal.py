import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from console.journal import STATE, Book, Change
from tests.unit.full_disk import full_disk
from tributary.api.console import Entry
from tributary.settings.errors import CommandError


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path / "new" / "journal.sqlite")


def added(book: Book, who: str, change: Change, now: float) -> Entry:
    entry = book.add(who, change, now)
    assert entry is not None
    return entry


def limit(before: str | None, after: str | None, path: str = "lte") -> Change:
    return Change(f"path {path}", "limit", before, after)


def test_a_change_is_a_line(book: Book) -> None:
    entry = added(book, "ada", limit(None, "2mbit"), 100.0)
    assert (entry.who, entry.subject, entry.key) == ("ada", "path lte", "limit")
    assert (entry.before, entry.after) == (None, "2mbit")
    assert book.entry(entry.id) == entry and book.newest(10) == (entry,)
    assert book.entry(entry.id + 1) is None


def test_each_fix_is_a_line_however_fast_they_come(book: Book) -> None:
    for number in range(3):
        added(book, "ada", Change("check mptcp", STATE, "wrong", "ok"), 100.0 + number)
    assert [(entry.before, entry.after) for entry in book.newest(10)] == [("wrong", "ok")] * 3


@pytest.mark.parametrize(("who", "path", "now"), [("eve", "lte", 101.0), ("ada", "dsl", 101.0), ("ada", "lte", 105.1)])
def test_other_changes_are_lines_of_their_own(book: Book, who: str, path: str, now: float) -> None:
    added(book, "ada", limit(None, "9mbit"), 100.0)
    book.add(who, limit("9mbit", "5mbit", path), now)
    assert [entry.before for entry in book.newest(10)] == ["9mbit", None]


def test_an_undo_is_a_line_of_its_own_and_nothing_goes_on_from_it(book: Book) -> None:
    first = added(book, "ada", limit(None, "3mbit"), 100.0)
    undo = book.undo("ada", first, 100.5)
    assert (undo.before, undo.after) == ("3mbit", None)
    third = added(book, "ada", limit(None, "6mbit"), 101.0)
    assert [(each.id, each.undone) for each in book.newest(9)] == [
        (third.id, False),
        (undo.id, False),
        (first.id, True),
    ]
    assert third.before is None


def test_a_slider_that_is_dragged_is_one_line_and_back_where_it_was_none(book: Book) -> None:
    added(book, "ada", limit(None, "9mbit"), 100.0)
    assert book.add("ada", limit("9mbit", None), 101.0) is None
    assert book.newest(10) == ()
    added(book, "ada", limit(None, "9mbit"), 100.0)
    added(book, "ada", limit("9mbit", "5mbit"), 100.1)
    entry = added(book, "ada", limit("5mbit", "2mbit"), 104.0)
    assert (entry.before, entry.after) == (None, "2mbit")
    assert len(book.newest(10)) == 1


def test_two_sliders_at_once_are_two_lines(book: Book) -> None:
    for step in range(10):
        for path in ("lte", "dsl"):
            added(book, "ada", limit(None if step == 0 else f"{step}mbit", f"{step + 1}mbit", path), 100.0 + step / 10)
    assert [(entry.subject, entry.before, entry.after) for entry in book.newest(10)] == [
        ("path dsl", None, "10mbit"),
        ("path lte", None, "10mbit"),
    ]


def test_a_journal_that_was_deleted_or_damaged_begins_anew(book: Book, tmp_path: Path) -> None:
    file = tmp_path / "new" / "journal.sqlite"
    added(book, "ada", limit(None, "9mbit"), 100.0)
    file.unlink()
    added(book, "ada", limit(None, "9mbit"), 100.0)
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(CommandError, match="cannot be read or written: file is not a database"):
        book.newest(10)
    assert book.newest(10) == () and file.with_suffix(".broken").exists()


def other_table(file: Path, columns: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"CREATE TABLE changes ({columns})")


def test_a_journal_whose_table_lacks_a_column_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite"
    other_table(file, "id INTEGER PRIMARY KEY, time REAL")
    book = Book(file)
    with pytest.raises(CommandError, match=r"no such column: .*; it is renamed to journal\.broken"):
        book.newest(10)
    assert book.newest(10) == () and file.with_suffix(".broken").exists()


def test_a_journal_with_text_that_is_none_begins_anew(book: Book, tmp_path: Path) -> None:
    added(book, "ada", limit(None, "9mbit"), 100.0)
    file = tmp_path / "new" / "journal.sqlite"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE changes SET who = CAST(x'ff' AS TEXT)")
    with pytest.raises(CommandError, match=r"Could not decode .*; it is renamed to journal\.broken"):
        book.newest(10)
    assert book.newest(10) == () and file.with_suffix(".broken").exists()


def test_a_column_that_a_later_version_adds_is_ignored(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite"
    other_table(
        file,
        "id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL, who TEXT, subject TEXT, key TEXT, before TEXT, after TEXT,"
        " undone INTEGER, to_come TEXT",
    )
    added(Book(file), "ada", limit(None, "9mbit"), 100.0)
    assert len(Book(file).newest(10)) == 1


def test_the_newest_thousand_are_kept(book: Book) -> None:
    for number in range(1010):
        added(book, "ada", limit(None, f"{number}mbit"), number * 10.0)
    entries = book.newest(5000)
    assert len(entries) == 1000 and entries[0].after == "1009mbit" and entries[-1].after == "10mbit"


def test_on_a_full_disk_a_line_is_refused_and_the_others_stay(book: Book) -> None:
    first = added(book, "ada", limit(None, "9mbit"), 100.0)
    with full_disk(), pytest.raises(CommandError, match=r"journal\.sqlite cannot be read or written"):
        book.add("eve", limit("9mbit", "5mbit", "dsl"), 101.0)
    second = added(book, "eve", limit("9mbit", "5mbit", "dsl"), 102.0)
    assert book.newest(10) == (second, first)

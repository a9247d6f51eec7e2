import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from console import fixes
from console.changes import Changes
from console.journal import Book
from tests.refusals import command_error
from tributary.api.console import Fixed, RanCommand
from tributary.daemons.control import Silent
from tributary.settings.errors import CommandError, Exit

RAN = (RanCommand(command="sysctl -w a=1", failure=None),)


@pytest.fixture(autouse=True)
def book(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Book:
    """A journal; beside it is the socket at which a doctor is asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fixes, "FIXES", Path("doctor-fix.sock"))
    return Book(tmp_path / "journal.sqlite")


@contextmanager
def silent() -> Iterator[socket.socket]:
    """A doctor that listens, and answers nothing by itself."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("doctor-fix.sock")
        listener.listen()
        yield listener


@contextmanager
def doctor(answer: bytes) -> Iterator[list[bytes]]:
    """One that gives this answer, once; what it was asked."""
    asked: list[bytes] = []
    with silent() as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(100))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join(5)


@pytest.mark.parametrize(
    ("left", "notes", "after"),
    [((), (), "ok"), (("a is 2",), (), "wrong"), ((), ("examining again failed",), "not known")],
)
def test_what_was_run_is_in_the_journal(book: Book, left: tuple[str, ...], notes: tuple[str, ...], after: str) -> None:
    fixed = Fixed(name="settings", ran=RAN, left=left, notes=notes)
    with doctor(fixed.model_dump_json().encode() + b"\n") as asked:
        assert asyncio.run(Changes(book, lambda *_: None).fix("ada", "settings")) == fixed
    assert asked == [b"settings\n"]
    (entry,) = book.newest(10)
    assert (entry.who, entry.subject, entry.key) == ("ada", "check settings", "state")
    assert (entry.before, entry.after) == ("wrong", after)


def test_where_nothing_was_run_or_the_doctor_refuses_the_journal_has_no_line(book: Book) -> None:
    answer = Fixed(name="settings", ran=(), left=()).model_dump_json().encode()
    with doctor(answer):
        asyncio.run(Changes(book, lambda *_: None).fix("ada", "settings"))
    Path("doctor-fix.sock").unlink()
    refused = b'{"failure": "x: accepted: y", "code": 64}\n'
    with doctor(refused), pytest.raises(CommandError, match="x: accepted: y"):
        asyncio.run(Changes(book, lambda *_: None).fix("ada", "settings"))
    assert book.newest(10) == ()


@pytest.mark.parametrize("answer", [b"", b"5", b'{"version": 1}', None], ids=["empty", "5", "older", "late"])
def test_where_no_answer_is_read_the_journal_says_that_the_outcome_is_not_known(
    book: Book, monkeypatch: pytest.MonkeyPatch, answer: bytes | None
) -> None:
    told: list[str | None] = []
    changes = Changes(book, lambda _who, change: told.append(change.after))
    monkeypatch.setattr(fixes, "_PATIENCE", 0.5)
    one = silent() if answer is None else doctor(answer)
    with one, command_error(Exit.UNAVAILABLE):
        asyncio.run(changes.fix("ada", "settings"))
    (entry,) = book.newest(10)
    assert (entry.who, entry.subject, entry.key) == ("ada", "check settings", "state")
    assert (entry.before, entry.after, told) == ("wrong", "not known", ["not known"])


def test_while_a_fix_runs_another_one_is_refused_at_once(book: Book) -> None:
    changes = Changes(book, lambda *_: None)

    async def both() -> None:
        with silent() as listener:
            first = asyncio.create_task(changes.fix("ada", "settings"))
            connection, _ = await asyncio.to_thread(listener.accept)
            with connection, command_error(Exit.IN_USE, "busy: another fix runs"):
                await asyncio.wait_for(changes.fix("bob", "limits"), 5)
            with pytest.raises(Silent):
                await first

    asyncio.run(both())


@pytest.mark.parametrize(
    ("answer", "code", "line"),
    [
        (b'{"failure": "x: accepted: y", "code": 64}\n', Exit.USAGE, "x: accepted: y"),
        (b'{"failure": "x", "code": 999}', Exit.UNAVAILABLE, "words of this version"),
        (b'{"version": 1}', Exit.UNAVAILABLE, "words of this version"),
        (b"5", Exit.UNAVAILABLE, "words of this version"),
        (b"[" * 100_000, Exit.UNAVAILABLE, "words of this version"),
        (b"\xff", Exit.UNAVAILABLE, "words of this version"),
        (b"", Exit.UNAVAILABLE, "too many ask at once"),
    ],
)
def test_what_is_no_answer_is_named(answer: bytes, code: Exit, line: str) -> None:
    with doctor(answer), command_error(code, line):
        fixes.ask("settings")


def test_without_a_socket_its_unit_is_named() -> None:
    with command_error(Exit.UNAVAILABLE, "is tributary-doctor-fix.socket active"):
        fixes.ask("settings")

"""What the doctor answers to the console at its socket, and what the journal says of it."""

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
from tributary.api.console import Fixed, RanCommand
from tributary.settings.errors import CommandError, Exit

RAN = (RanCommand(command="sysctl -w a=1", failure=None),)


@contextmanager
def doctor(monkeypatch: pytest.MonkeyPatch, folder: Path, answer: bytes) -> Iterator[list[bytes]]:
    """One that gives this answer, once; what it was asked."""
    asked: list[bytes] = []
    monkeypatch.setattr(fixes, "FIXES", folder / "doctor-fix.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "doctor-fix.sock"))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(100))
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join(5)


@pytest.mark.parametrize(("left", "after"), [((), "ok"), (("a is 2",), "wrong")])
def test_what_was_run_is_a_line_of_the_journal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, left: tuple[str, ...], after: str
) -> None:
    fixed = Fixed(name="settings", ran=RAN, left=left)
    book = Book(tmp_path / "journal.sqlite")
    with doctor(monkeypatch, tmp_path, fixed.model_dump_json().encode() + b"\n") as asked:
        assert asyncio.run(Changes(book, lambda *_: None).fix("ada", "settings")) == fixed
    assert asked == [b"settings\n"]
    (entry,) = book.newest(10)
    assert (entry.who, entry.subject, entry.key) == ("ada", "check settings", "state")
    assert (entry.before, entry.after) == ("wrong", after)


def test_where_nothing_was_run_the_journal_has_no_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    book = Book(tmp_path / "journal.sqlite")
    answer = Fixed(name="settings", ran=(), left=()).model_dump_json().encode()
    with doctor(monkeypatch, tmp_path, answer):
        asyncio.run(Changes(book, lambda *_: None).fix("ada", "settings"))
    assert book.newest(10) == ()


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
def test_what_is_no_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: bytes, code: Exit, line: str
) -> None:
    with doctor(monkeypatch, tmp_path, answer), pytest.raises(CommandError, match=line) as failure:
        fixes.ask("settings")
    assert failure.value.code == code


def test_without_a_socket_its_unit_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fixes, "FIXES", tmp_path / "nothing.sock")
    with pytest.raises(CommandError, match=r"is tributary-doctor-fix\.socket active") as failure:
        fixes.ask("settings")
    assert failure.value.code == Exit.UNAVAILABLE

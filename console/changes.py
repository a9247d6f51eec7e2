"""Changes from the page: one at a time for each subject, the last value wins, each has a line in the journal."""

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from command import box, mapping, steering
from console.journal import Book, Change
from tributary.api.console import Entry
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import PositiveRate

PAUSE = 0.1
"""Seconds between two changes of a subject, for a slider that is dragged."""


@dataclass(frozen=True)
class Subject:
    """What may be changed: how its value is read now, and how it is set; both raise CommandError."""

    name: str
    key: str
    value: Callable[[], str | None]
    set: Callable[[str | None], None]


def limit_of(path: str) -> Subject:
    """The limit of a path; raises CommandError, exit 64, as ``set`` does for a rate that is none."""
    return Subject(f"path {path}", "limit", lambda: _limit(path), lambda rate: steering.limit(path, _rate(rate)))


def _rate(text: str | None) -> PositiveRate | None:
    try:
        return None if text is None else PositiveRate.parse(text)
    except ValueError as error:
        raise CommandError(Exit.USAGE, f"rate = {text!r}: accepted: {error}") from error


def _limit(path: str) -> str | None:
    found = {each.name: each.limit for each in mapping.paths(box.throttler())}
    if path not in found:
        raise CommandError(Exit.USAGE, f"{path}: accepted: a path of the policy: {', '.join(found)}")
    return found[path]


def key_of_link(link: str, key: str) -> Subject:
    """A key of an access link."""
    return Subject(f"link {link}", key, lambda: _key(link, key), lambda value: steering.set_link(link, key, value))


def _key(link: str, key: str) -> str | None:
    links: Mapping[str, Mapping[str, object]] = {each["name"]: each for each in box.router()["wan"]}
    if link not in links:
        raise CommandError(Exit.USAGE, f"{link}: accepted: a link of the router: {', '.join(links)}")
    given = links[link]["set"]
    assert isinstance(given, dict)
    return given.get(key)


def subject_of(entry: Entry) -> Subject:
    """What a line of the journal has changed."""
    kind, _, name = entry.subject.partition(" ")
    return limit_of(name) if kind == "path" else key_of_link(name, entry.key)


class Changes:
    """Makes changes; ``told`` gets each line of the journal."""

    def __init__(self, book: Book, told: Callable[[Entry], None]) -> None:
        self._book, self._told = book, told
        self._turns: dict[tuple[str, str], _Turn] = {}

    async def make(self, who: str, subject: Subject, value: str | None, undoes: Entry | None = None) -> Entry | None:
        """Set the subject's value; None if it has it already, or a later value took its place. Raises CommandError.

        ``undoes`` is the line of the journal that this undoes.
        """
        turn = self._turns.setdefault((subject.name, subject.key), _Turn())
        turn.last += 1
        own = turn.last
        async with turn.lock:
            if own != turn.last:
                return None
            entry = await asyncio.to_thread(self._make, who, subject, value, undoes)
            await asyncio.sleep(PAUSE)
            return entry

    async def undo(self, who: str, number: int) -> Entry | None:
        """Undo what a line of the journal has changed; raises CommandError."""
        entry = self._book.entry(number)
        if entry is None or entry.undone:
            raise CommandError(Exit.USAGE, f"entry = {number}: accepted: a line of the journal that is not undone yet")
        return await self.make(who, subject_of(entry), entry.before, entry)

    def _make(self, who: str, subject: Subject, value: str | None, undoes: Entry | None) -> Entry | None:
        before = subject.value()
        if undoes is not None and before != undoes.after:
            raise CommandError(Exit.USAGE, f"{subject.name} has changed since: set it, or undo the newest change")
        if before == value:
            return None
        subject.set(value)
        try:
            if undoes is not None:
                self._book.mark_undone(undoes.id)
            entry = self._book.add(who, Change(subject.name, subject.key, before, value), time.time())
        except sqlite3.Error as error:
            raise CommandError(Exit.SYSTEM, f"it is done, but the journal cannot be written: {error}") from error
        self._told(entry)
        return entry


class _Turn:
    """Changes of a subject: how many came, and the lock of the one that is made."""

    def __init__(self) -> None:
        self.last = 0
        self.lock = asyncio.Lock()

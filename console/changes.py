"""Changes from the page: one at a time for each subject, the last value wins, each has a line in the journal."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from command import box, mapping, steering
from console import fixes
from console.journal import ACCESS, STATE, TO, Book, Change
from tributary.api.console import Entry, Fixed
from tributary.api.places import GATEWAY, ROUTER
from tributary.daemons.control import Silent
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import PositiveRate

PAUSE = 0.1
"""Seconds between two changes of a subject, for a slider that is dragged."""
PATIENCE = 3.0
"""Seconds in which a daemon has to say how things are."""
_NOT_KNOWN = "not known"
"""What something is after a change, in the journal, where no answer says that."""


@dataclass(frozen=True)
class Subject:
    """What may be changed: a path's limit, a key of an access link, where a by-pass leads. All raise CommandError."""

    kind: str
    name: str
    key: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    def value(self) -> str | None:
        """How it is now."""
        if self.kind == "bypass":
            added = (each for each in box.lan(PATIENCE)["bypass"] if each["added"])
            return {each["match"][0]: each["to"] for each in added}.get(self.name)
        if self.kind == "path":
            found = {each.name: each.limit for each in mapping.paths(box.throttler(PATIENCE))}
        else:
            found = {each["name"]: each["set"].get(self.key) for each in box.router(PATIENCE)["wan"]}
        if self.name not in found:
            which = "path of the policy" if self.kind == "path" else "link of the router"
            raise CommandError(Exit.USAGE, f"{self.name}: accepted: a {which}: {', '.join(found)}")
        return found[self.name]

    def set(self, value: str | None) -> None:
        """Set it at the daemon."""
        if self.kind == "path":
            steering.limit(self.name, None if value is None else PositiveRate.parse(value))
        elif self.kind == "bypass":
            ROUTER.ask("set-bypass", match=self.name, to=value)
        else:
            ROUTER.ask("set-link", link=self.name, key=self.key, value=value)

    def written(self, text: str) -> str:
        """A value as the daemons write it."""
        try:
            return text if self.key in ("use", TO) else str(PositiveRate.parse(text))
        except ValueError as error:
            raise CommandError(Exit.USAGE, f"rate = {text!r}: accepted: {error}") from error


def subject_of(entry: Entry) -> Subject:
    """What a line of the journal has changed; raises CommandError for what cannot be undone."""
    if entry.key in (ACCESS, STATE):
        raise CommandError(Exit.USAGE, f"{entry.subject}: accepted: a change of a limit, a link or a by-pass")
    kind, _, name = entry.subject.partition(" ")
    return Subject(kind, name, entry.key)


class Changes:
    """Makes changes; ``tell`` gets who has made each, before it is written into the journal."""

    def __init__(self, book: Book, tell: Callable[[str, Change], None]) -> None:
        self._book, self._tell = book, tell
        self._access_lock, self._fixes_lock = asyncio.Lock(), asyncio.Lock()
        self._turns: dict[Subject, _Turn] = {}

    async def make(self, who: str, subject: Subject, value: str | None, undoes: Entry | None = None) -> Entry | None:
        """Set the subject's value; None if it has it already, or a later value took its place. Raises CommandError.

        ``undoes`` is the line of the journal that this undoes.
        """
        value = None if value is None else subject.written(value)
        turn = self._turns.setdefault(subject, _Turn())
        turn.last += 1
        own = turn.last
        async with turn.lock:
            if own != turn.last:
                return None
            try:
                entry = await asyncio.to_thread(self._make, who, subject, value, undoes)
                await asyncio.sleep(PAUSE)
            finally:
                if own == turn.last:
                    del self._turns[subject]
            return entry

    async def undo(self, who: str, number: int) -> Entry | None:
        """Undo what a line of the journal has changed; raises CommandError."""
        entry = await asyncio.to_thread(self._book.entry, number)
        if entry is None or entry.undone:
            raise CommandError(Exit.USAGE, f"entry = {number}: accepted: a line of the journal that is not undone yet")
        return await self.make(who, subject_of(entry), entry.before, entry)

    async def enrol(self, who: str, name: str) -> Mapping[str, Any]:
        """Enrol a home router; what the gateway's service answers. Raises CommandError."""
        return await self._access(who, "enrol", name, Change(f"router {name}", ACCESS, None, "yes"))

    async def revoke(self, who: str, name: str) -> Mapping[str, Any]:
        """Revoke a home router; what the gateway's service answers. Raises CommandError."""
        return await self._access(who, "revoke", name, Change(f"router {name}", ACCESS, "yes", None))

    async def fix(self, who: str, name: str) -> Fixed:
        """Have the doctor fix what has this ``fix_name``; raises CommandError."""
        # One at a time: each takes a thread, for up to a minute.
        if self._fixes_lock.locked():
            raise CommandError(Exit.IN_USE, "busy: another fix runs")
        async with self._fixes_lock:
            return await asyncio.to_thread(self._fix, who, name)

    def _fix(self, who: str, name: str) -> Fixed:
        became = partial(Change, f"check {name}", STATE, "wrong")
        with self._noting_silence(who, became(None)):
            fixed = fixes.ask(name)
        if not fixed.ran:
            return fixed
        note = self._noted(who, became("wrong" if fixed.left else _NOT_KNOWN if fixed.notes else "ok"))
        # What was run is shown, whatever became of the journal.
        return fixed.model_copy(update={"notes": (*fixed.notes, note)}) if note else fixed

    @contextmanager
    def _noting_silence(self, who: str, change: Change) -> Iterator[None]:
        """Have a change in the journal also where it was asked for, and no answer says whether it was made."""
        try:
            yield
        except Silent as unknown:
            if note := self._noted(who, replace(change, after=_NOT_KNOWN)):
                raise CommandError(unknown.code, f"{unknown}; {note}") from unknown
            raise

    def _noted(self, who: str, change: Change) -> str | None:
        """Write a change that was made into the journal; what is wrong with that, None if nothing is."""
        self._tell(who, change)
        try:
            self._book.add(who, change, time.time())
        except CommandError as error:
            return f"not in the journal: {error}"
        return None

    async def _access(self, who: str, command: str, name: str, change: Change) -> Mapping[str, Any]:
        # One at a time: each takes a thread.
        async with self._access_lock:
            return await asyncio.to_thread(self._change_access, who, command, name, change)

    def _change_access(self, who: str, command: str, name: str, change: Change) -> Mapping[str, Any]:
        with self._noting_silence(who, change):
            answer = GATEWAY.ask(command, name=name)
        # A secret that was made is shown, whatever became of the journal.
        if note := self._noted(who, change):
            answer["notes"].append(note)
        return answer

    def _make(self, who: str, subject: Subject, value: str | None, undoes: Entry | None) -> Entry | None:
        before = subject.value()
        if undoes is not None and before != undoes.after:
            raise CommandError(Exit.USAGE, f"{subject} has changed since: set it, or undo the newest change")
        if before == value:
            return None
        change = Change(str(subject), subject.key, before, value)
        with self._noting_silence(who, change):
            subject.set(value)
        self._tell(who, change)
        try:
            return self._book.undo(who, undoes, time.time()) if undoes else self._book.add(who, change, time.time())
        except CommandError as error:
            raise CommandError(Exit.SYSTEM, f"it is done, but not in the journal: {error}") from error


class _Turn:
    """Changes of a subject: how many came, and the lock of the one that is made."""

    def __init__(self) -> None:
        self.last = 0
        self.lock = asyncio.Lock()

"""Looks at the daemons once a second, for all pages together."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from command import box
from command.show import Listed
from command.watch import with_rates
from console.changes import PATIENCE
from console.history import Recorder
from tributary.api.console import Examination, Look
from tributary.api.documents import Bypass, Device, Link, Rule, Session
from tributary.api.places import EXAMINED, FIXES
from tributary.daemons.text import age
from tributary.settings.errors import CommandError
from tributary.settings.privacy import Privacy

INTERVAL = 1.0
"""Seconds between two looks."""
_SHARE = 0.1
"""Of the time that looks may take at most: where one takes long, they are rarer."""
_LONGEST_PAUSE = 5.0
"""Seconds; also while a daemon does not answer."""
SHOWN = 50
"""Sessions and devices on the page: those that carry most."""

_SET, _TOLD = 5.0, 600.0
"""Seconds by which a clock is set at least, others run a little faster or slower; for how long that is told."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Seen:
    """What the daemons answered, with rates: what the page gets, and all of what it gets a part of.

    What does not run has nothing.
    """

    look: Look
    links: Listed[Link]
    sessions: Listed[Session]
    devices: Listed[Device]
    privacy: Privacy = "full"
    """How much of clients' addresses the throttler shows."""


def take(before: Seen | None) -> Seen:
    """Ask the daemons, and count since ``before``."""
    answers, notes = box.Answers(PATIENCE, PATIENCE), []
    links: Listed[Link] = Listed([], time.monotonic())
    sessions: Listed[Session] = Listed([], 0.0)
    rules: Sequence[Rule] = []
    privacy: Privacy = "full"
    try:
        links = answers.links()
    except CommandError as failure:
        notes.append(str(failure))
    services = tuple(answers.daemons())
    notes += [*answers.notes(), *(each.summary for each in services if each.is_silent)]
    # A home router has no throttler; where both are missing, links say so.
    with suppress(CommandError):
        sessions, rules = answers.sessions(), answers.rules().documents
        privacy = answers.throttler().privacy
    devices: Listed[Device] = Listed([], 0.0)
    bypasses: Sequence[Bypass] = []
    gateway = None
    # Nor has a gateway a LAN.
    with suppress(CommandError):
        gateway = answers.gateway()
        if before is not None:  # a router that runs a program says later what its LAN does
            devices, bypasses = before.devices, before.look.bypasses
        devices, bypasses = answers.devices(), answers.bypasses()
    examined = None
    try:
        examined = Examination.model_validate_json(EXAMINED.read_bytes())
    except FileNotFoundError:
        pass  # the doctor looks for the first time some minutes after the start
    except (OSError, ValueError) as error:
        notes.append(f"{EXAMINED}, what the doctor found, cannot be read ({type(error).__name__})")
    links = with_rates(before.links if before else None, links)
    sessions = with_rates(before.sessions if before else None, sessions)
    devices = with_rates(before.devices if before else None, devices)
    seen = _seen(
        links,
        sessions,
        devices,
        services=services,
        rules=tuple(rules),
        bypasses=tuple(bypasses),
        gateway=gateway,
        notes=tuple(dict.fromkeys(notes)),
        examined=examined,
        fixes=FIXES.is_socket(),
        overlay=_known(answers.overlay),
        handoff=_known(answers.handoff),
        fleet=_known(answers.fleet),
    )
    return replace(seen, privacy=privacy)


def _known(answer: _T | CommandError) -> _T | None:
    return None if isinstance(answer, CommandError) else answer


def _seen(links: Listed[Link], sessions: Listed[Session], devices: Listed[Device], **rest: Any) -> Seen:
    """With the ``rest`` of the Look."""
    look = Look(
        time=round(time.time(), 3),
        links=tuple(links.documents),
        sessions=tuple(sorted(sessions.documents, key=load, reverse=True)[:SHOWN]),
        sessions_total=sessions.total,
        devices=tuple(sorted(devices.documents, key=load, reverse=True)[:SHOWN]),
        devices_total=len(devices.documents),
        **rest,
    )
    return Seen(look, links, sessions, devices)


def _nothing(note: str) -> Seen:
    none = dict.fromkeys(("services", "rules", "bypasses"), ())
    unknown = Listed[Any]([], 0.0)
    return _seen(unknown, unknown, unknown, **none, gateway=None, notes=(note,), examined=None)


def load(session: Session | Device) -> float:
    """What it carries both ways, in bits per second."""
    return (session.sent_rate or 0) + (session.received_rate or 0)


class Clock:
    """Whether this machine's clock, which all times here are of, was set."""

    def __init__(self) -> None:
        self._ahead: float | None = None
        self._set_by, self._set_at = 0.0, float("-inf")

    def note(self, now: float, running: float) -> str | None:
        """That it was set lately, in words; ``now`` in seconds since 1970, ``running`` by a clock that nobody sets."""
        ahead = now - running
        by = 0.0 if self._ahead is None else ahead - self._ahead
        self._ahead = ahead
        if abs(by) > _SET:
            self._set_by, self._set_at = by, running
        if running - self._set_at > _TOLD:
            return None
        return f"this machine's clock was set {'forward' if self._set_by > 0 else 'back'} by {age(abs(self._set_by))}"


class Looking:
    """The latest look, and whoever waits for the next one. ``tell`` gets what was wrong with one."""

    def __init__(self, recorder: Recorder, tell: Callable[[str], None]) -> None:
        self.seen: Seen | None = None
        self.text = b""
        """The latest Look as JSON: written once for all pages."""
        self._recorder, self._tell = recorder, tell
        self._next = asyncio.Event()
        self._clock = Clock()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        # A thread of its own: nothing that a page asks for keeps it waiting.
        with ThreadPoolExecutor(1, "looks") as thread:
            while True:
                start = time.monotonic()
                await loop.run_in_executor(thread, self._look)
                self._next.set()
                self._next = asyncio.Event()
                took = time.monotonic() - start
                await asyncio.sleep(max(INTERVAL - took, min(took / _SHARE - took, _LONGEST_PAUSE)))

    def _look(self) -> None:
        try:
            seen = take(self.seen)
        except Exception as error:  # such as a daemon of another version, while this machine is upgraded
            self._tell(f"{type(error).__name__}: {error}")
            seen = _nothing(f"what the services say cannot be read ({type(error).__name__}: {error})")
        # Both clocks at once, before the recorder, which may wait for a disk.
        set_lately = self._clock.note(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))
        self._recorder.add(seen.links.documents, seen.look.time)
        own = (self._recorder.failure, set_lately)
        notes = (*seen.look.notes, *filter(None, own))
        self.text = seen.look.model_copy(update={"notes": notes}).model_dump_json().encode()
        self.seen = seen

    async def latest(self) -> Seen:
        """The latest look, or the first."""
        while self.seen is None:
            await self._next.wait()
        return self.seen

    async def texts(self) -> AsyncIterator[bytes]:
        """Each look as JSON, as long as it is asked for; who reads slowly misses some."""
        sent = b""
        while True:
            if self.text and self.text is not sent:
                sent = self.text
                yield sent
            else:
                await self._next.wait()

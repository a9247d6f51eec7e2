"""Looks at the daemons once a second, for all pages together."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from command import box
from command.show import Listed
from command.watch import with_rates
from console.changes import PATIENCE
from console.history import Recorder
from tributary.api.console import Examination, Look
from tributary.api.documents import Bypass, Device, HomeGateway, Link, Rule, Service, Session
from tributary.api.parts import Fleet, HandOff, Overlay
from tributary.api.places import EXAMINED, FIXES
from tributary.settings.errors import CommandError

INTERVAL = 1.0
"""Seconds between two looks."""
_SHARE = 0.1
"""Of the time that looks may take at most: where one takes long, they are rarer."""
_LONGEST_PAUSE = 5.0
"""Seconds; also while a daemon does not answer."""
SHOWN = 50
"""Sessions and devices on the page: those that carry most."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Seen:
    """What the daemons answered, with rates; ``time`` in seconds since 1970. What does not run has nothing."""

    time: float
    services: Sequence[Service]
    links: Listed[Link]
    sessions: Listed[Session]
    rules: Sequence[Rule]
    notes: Sequence[str]
    devices: Listed[Device]
    bypasses: Sequence[Bypass] = ()
    gateway: HomeGateway | None = None
    examined: Examination | None = None
    fixes: bool = False
    overlay: Overlay | None = None
    handoff: HandOff | None = None
    fleet: Fleet | None = None


def take(before: Seen | None) -> Seen:
    """Ask the daemons, and count since ``before``."""
    answers, notes = box.Answers(PATIENCE, PATIENCE), []
    links: Listed[Link] = Listed([], time.monotonic())
    sessions: Listed[Session] = Listed([], 0.0)
    rules: Sequence[Rule] = []
    try:
        links = answers.links()
        notes += answers.notes()
    except CommandError as failure:
        notes.append(str(failure))
    # A home router has no throttler; where both are missing, links say so.
    with suppress(CommandError):
        sessions, rules = answers.sessions(), answers.rules().documents
    devices: Listed[Device] = Listed([], 0.0)
    bypasses: Sequence[Bypass] = []
    gateway = None
    # Nor has a gateway a LAN.
    with suppress(CommandError):
        gateway = answers.gateway()
        if before is not None:  # a router that runs a program says later what its LAN does
            devices, bypasses = before.devices, before.bypasses
        devices, bypasses = answers.devices(), answers.bypasses()
    examined = None
    try:
        examined = Examination.model_validate_json(EXAMINED.read_bytes())
    except FileNotFoundError:
        pass  # the doctor looks for the first time some minutes after the start
    except (OSError, ValueError) as error:
        notes.append(f"{EXAMINED}, what the doctor found, cannot be read ({type(error).__name__})")
    return Seen(
        time.time(),
        answers.daemons(),
        with_rates(before.links if before else None, links),
        with_rates(before.sessions if before else None, sessions),
        rules,
        notes,
        with_rates(before.devices if before else None, devices),
        bypasses,
        gateway,
        examined,
        FIXES.is_socket(),
        _known(answers.overlay),
        _known(answers.handoff),
        _known(answers.fleet),
    )


def _known(answer: _T | CommandError) -> _T | None:
    return None if isinstance(answer, CommandError) else answer


def _nothing(note: str) -> Seen:
    return Seen(time.time(), [], Listed([], 0.0), Listed([], 0.0), [], [note], Listed([], 0.0))


def load(session: Session | Device) -> float:
    """What it carries both ways, in bits per second."""
    return (session.sent_rate or 0) + (session.received_rate or 0)


def shown(seen: Seen, notes: Sequence[str]) -> Look:
    """What the page gets."""
    return Look(
        time=round(seen.time, 3),
        services=tuple(seen.services),
        links=tuple(seen.links.documents),
        sessions=tuple(sorted(seen.sessions.documents, key=load, reverse=True)[:SHOWN]),
        sessions_total=seen.sessions.total,
        rules=tuple(seen.rules),
        devices=tuple(sorted(seen.devices.documents, key=load, reverse=True)[:SHOWN]),
        devices_total=len(seen.devices.documents),
        bypasses=tuple(seen.bypasses),
        gateway=seen.gateway,
        notes=(*seen.notes, *notes),
        examined=seen.examined,
        fixes=seen.fixes,
        overlay=seen.overlay,
        handoff=seen.handoff,
        fleet=seen.fleet,
    )


class Looking:
    """The latest look, and whoever waits for the next one. ``tell`` gets what was wrong with one."""

    def __init__(self, recorder: Recorder, tell: Callable[[str], None]) -> None:
        self.seen: Seen | None = None
        self.text = b""
        """The latest Look as JSON: written once for all pages."""
        self._recorder, self._tell = recorder, tell
        self._next = asyncio.Event()

    async def run(self) -> None:
        """Look until cancelled."""
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
        self._recorder.add(seen.links.documents, seen.time)
        failure = self._recorder.failure
        self.text = shown(seen, [failure] if failure else []).model_dump_json().encode()
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

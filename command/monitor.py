"""``tributary monitor``: says what has changed, as it changes."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from command import box
from tributary.api.documents import Change, Document, Link, Service, Session
from tributary.daemons.logs import printable, timestamp
from tributary.daemons.text import plural, scaled
from tributary.settings.errors import CommandError

INTERVAL = 1.0
"""Seconds between two looks."""

Kind = Literal["session", "link", "service"]
Seen = Mapping[tuple[Kind, str], Document]


def look(before: Seen) -> Seen:
    """All that is watched; what does not run has nothing, and what does not answer what it had ``before``."""
    answers = box.Answers()
    services = answers.services()
    silent = {each.name for each in services if each.is_silent}
    found = {key: each for key, each in before.items() if _source(each) in silent}
    found |= {("service", each.name): each for each in services}
    lists: tuple[tuple[Kind, Callable[[], Sequence[Document]]], ...] = (
        ("link", lambda: answers.links().documents),
        ("session", lambda: answers.sessions().documents),
    )
    for kind, listed in lists:
        with suppress(CommandError):
            found |= {(kind, each.key): each for each in listed()}
    return found


def _source(document: Document) -> str | None:
    """The service that tells of it."""
    if isinstance(document, Session):
        return "throttler"
    return {"wan": "router", "path": "throttler"}[document.kind] if isinstance(document, Link) else None


def changes(before: Seen, after: Seen, now: float) -> Iterator[Change]:
    """From one look to the next; ``now`` in seconds since 1970."""
    when = timestamp(now)
    for kind, name in before.keys() - after.keys():
        yield Change(time=when, kind=kind, name=name, change="gone", text=f"{kind} {name} is gone")
    for (kind, name), document in after.items():
        old = before.get((kind, name))
        if old is None:
            yield Change(time=when, kind=kind, name=name, change="new", text=f"{kind} {name}: {essence(document)}")
        elif essence(old) != essence(document):
            text = f"{kind} {name}: {essence(document)} (was: {essence(old)})"
            yield Change(time=when, kind=kind, name=name, change="changed", text=text)


def essence(document: Document) -> str:
    """What is worth a line when it changes: no counters, no times."""
    match document:
        case Session():
            return f"{document.client}, {plural(len(document.subflows), 'subflow')}, {document.throttled} throttled"
        case Link():
            given = (("down", document.download), ("up", document.upload))
            rates = [f"{scaled(rate, 'bit/s')} {way}" for way, rate in given if rate]
            limit = [f"limited to {document.limit}"] if document.limit else []
            return ", ".join([document.condition, *rates, *limit])
        case Service():
            return document.state
    raise TypeError(document)


def monitor(json: bool) -> None:
    """Print all that is there, and then each change, until Ctrl-C."""
    before: Seen = {}
    while True:
        after = look(before)
        for change in changes(before, after, time.time()):
            print(change.model_dump_json() if json else printable(f"{change.time} {change.text}"), flush=True)
        before = after
        time.sleep(INTERVAL)

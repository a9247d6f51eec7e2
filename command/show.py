"""Documents as tables that line up, or as JSON: filtered, sorted, cut."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from tributary.api.documents import (
    VERSION,
    Account,
    Device,
    Document,
    HtbClass,
    Link,
    Router,
    Rule,
    Service,
    Session,
    Subflow,
    Tunnel,
)
from tributary.daemons.text import age, scaled
from tributary.settings import cli
from tributary.settings.errors import CommandError, Exit
from tributary.settings.hosts import by_number

D = TypeVar("D", bound=Document)


@dataclass(frozen=True)
class Column(Generic[D]):
    """A title; what is shown, how it is written, and what if it is not known; what it is sorted by, if not itself."""

    title: str
    value: Callable[[D], Any]
    text: Callable[[Any], str] = str
    unknown: str = ""
    key: Callable[[Any], Any] = lambda value: value

    def cell(self, document: D) -> str:
        value = self.value(document)
        return self.unknown if value is None else self.text(value)

    def order(self, document: D) -> tuple[bool, Any]:
        """What is not known comes last."""
        value = self.value(document)
        return (True, None) if value is None or value == "" else (False, self.key(value))


@dataclass(frozen=True)
class Listed(Generic[D]):
    """Documents of one kind, and when they were counted, in seconds of any clock.

    ``total`` is how many there are where the daemon does not list them all, else 0.
    """

    documents: Sequence[D]
    moment: float
    total: int = 0

    @property
    def in_all(self) -> int:
        return max(self.total, len(self.documents))


@dataclass(frozen=True)
class Selection:
    """How a list is shown: sorted by a column's title, ``-TITLE`` from the largest; at most so many rows."""

    json: bool
    sort: str | None = None
    limit: int | None = None


_bytes, _rate = partial(scaled, unit="B"), partial(scaled, unit="bit/s")
_count = "{:,}".format


def _rtt(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"


def _from(tunnel: Tunnel) -> str:
    return f"{'all else' if tunnel.link is None else tunnel.link}: {tunnel.outside}"


_COUNTED: tuple[Column[Any], ...] = (
    Column("sending", lambda each: each.sent_rate, _rate),
    Column("receiving", lambda each: each.received_rate, _rate),
    Column("sent", lambda each: each.sent, _bytes),
    Column("received", lambda each: each.received, _bytes),
)
LINKS: tuple[Column[Link], ...] = (
    Column("link", lambda each: each.name),
    Column("state", lambda each: each.condition),
    Column("for", lambda each: each.age, age),
    Column("interface", lambda each: each.interface),
    Column("use", lambda each: each.use),
    Column("rtt", lambda each: each.rtt, _rtt),
    Column("download", lambda each: each.download, _rate),
    Column("upload", lambda each: each.upload, _rate),
    *_COUNTED,
    Column(
        "cap",
        lambda each: (each.used or 0, each.cap) if each.cap else None,
        lambda pair: " of ".join(map(_bytes, pair)),
    ),
    Column("subflows", lambda each: each.subflows, _count),
    Column("throttled", lambda each: each.throttled, _count),
    Column("limit", lambda each: each.limit),
)
SESSIONS: tuple[Column[Session], ...] = (
    Column("token", lambda each: each.token),
    Column("client", lambda each: each.client, key=by_number),
    Column("age", lambda each: each.age, age),
    Column("subflows", lambda each: len(each.subflows), _count),
    Column("active", lambda each: each.active, _count),
    Column("throttled", lambda each: each.throttled, _count),
    *_COUNTED,
    Column("paths", lambda each: ", ".join(sorted({subflow.path for subflow in each.subflows if subflow.path}))),
)
SUBFLOWS: tuple[Column[Subflow], ...] = (
    Column("remote", lambda each: each.remote),
    Column("local", lambda each: each.local),
    Column("path", lambda each: each.path),
    Column("kind", lambda each: ("initial" if each.initial else "join") + (", backup" if each.backup else "")),
    Column("rtt", lambda each: each.rtt, _rtt),
    *_COUNTED,
    Column("throttled by", lambda each: each.rule if each.throttled else None),
    Column("only counted by", lambda each: each.counted_by),
)
RULES: tuple[Column[Rule], ...] = (
    Column("rule", lambda each: each.name),
    Column("state", lambda each: each.state),
    Column("rate", lambda each: each.rate),
    Column("for each", lambda each: each.shared_by),
    Column("subflows", lambda each: each.subflows, _count),
    Column("matches", lambda each: each.matches, _count),
    Column("quota", lambda each: each.quota),
    Column("most used", lambda each: each.used, _bytes),
    Column("exhausted", lambda each: each.exhausted, _count),
)
DEVICES: tuple[Column[Device], ...] = (
    Column("device", lambda each: each.name or each.mac),
    Column("addresses", lambda each: ", ".join(each.addresses)),
    *_COUNTED,
    Column("mac", lambda each: each.mac),
)
ACCOUNTS: tuple[Column[Account], ...] = (
    Column("day", lambda each: each.day),
    Column("client", lambda each: each.client, key=by_number),
    Column("router", lambda each: each.router),
    Column("path", lambda each: each.path),
    Column("connections", lambda each: each.connections, _count),
    Column("received", lambda each: each.received, _bytes),
    Column("sent", lambda each: each.sent, _bytes),
)
CLASSES: tuple[Column[HtbClass], ...] = (
    Column("interface", lambda each: each.device),
    Column("class", lambda each: each.id),
    Column("direction", lambda each: each.direction),
    Column("rule", lambda each: each.rule),
    Column("for", lambda each: each.owner),
    Column("rate", lambda each: each.rate + f" up to {each.ceiling}" * (each.ceiling != each.rate)),
    Column("subflows", lambda each: each.subflows, _count),
    Column("sending", lambda each: each.sent_rate, _rate),
    Column("sent", lambda each: each.sent, _bytes),
    Column("drops/s", lambda each: each.drop_rate, lambda rate: f"{rate:,.0f}" if rate else ""),
    Column("dropped", lambda each: each.dropped, _count),
    Column("backlog", lambda each: each.backlog, _bytes),
)
ROUTERS: tuple[Column[Router], ...] = (
    Column("router", lambda each: each.name),
    Column("number", lambda each: each.number, "{}".format),
    Column("address", lambda each: each.addresses[0]),
    Column("LAN", lambda each: each.prefix),
    Column("keys", lambda each: "rotating" if each.rotating else ""),
    Column("links up", lambda each: each.links_up, _count),
    Column("seen", lambda each: each.last_seen, age, "never"),
    *_COUNTED,
    Column("forwards", lambda each: ", ".join(each.forwards)),
    Column("links from", lambda each: ", ".join(map(_from, each.up))),
)
SERVICES: tuple[Column[Service], ...] = (
    Column("service", lambda each: each.name),
    Column("state", lambda each: each.state),
    Column("for", lambda each: each.uptime, age),
    Column("what", lambda each: each.summary),
)
"""Columns that are not text as it is are numbers, to the right."""


def print_json(
    name: str, listed: Listed[D], columns: Sequence[Column[D]], selection: Selection, indent: int | None = 2
) -> None:
    """The documents as the list ``name`` of a JSON object, and how many there are."""
    shown = chosen(listed.documents, columns, selection)
    print_object(indent, **{name: [each.model_dump(mode="json") for each in shown], "total": listed.in_all})


def print_object(indent: int | None = 2, **members: object) -> None:
    """One JSON object, with the version of all documents."""
    print(json.dumps({"version": VERSION, **members}, indent=indent), flush=True)


def print_either(lines: Iterable[str], as_json: bool, **members: Any) -> None:
    """One JSON object, or ``lines`` for a person."""
    cli.show({"version": VERSION, **members}, lines, as_json=as_json)


def chosen(documents: Sequence[D], columns: Sequence[Column[D]], selection: Selection) -> Sequence[D]:
    """Sorted and cut."""
    if selection.sort is not None:
        by = {column.title: column for column in columns}
        title = selection.sort.removeprefix("-")
        if title not in by:
            raise CommandError(Exit.USAGE, f"--sort {selection.sort}: accepted: {', '.join(by)}")
        known = sorted((each for each in documents if not by[title].order(each)[0]), key=by[title].order)
        if selection.sort.startswith("-"):
            known.reverse()
        documents = [*known, *(each for each in documents if by[title].order(each)[0])]
    return documents[: selection.limit]

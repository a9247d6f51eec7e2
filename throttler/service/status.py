"""The daemon's status: the types that text, view, metrics and experiments use, and their JSON form.

JSON has the fields' names and order; only a class has its id under ``class``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from tributary.settings.errors import CommandError, Exit
from tributary.settings.privacy import Privacy

Json = dict[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True)
class QuotaStatus:
    """A quota in bytes per owner and period; ``used`` by all owners together, ``max_used`` by the one that used
    most.
    """

    bytes: int
    period: str
    used: int
    max_used: int
    exhausted: int


@dataclass(frozen=True)
class RuleStatus:
    """A rule; ``rate`` is None if it sets no limit."""

    name: str
    runtime: bool
    dry_run: bool
    active: bool
    shared_by: str
    rate: str | None
    subflows: int
    classes: int
    matches: int
    quota: QuotaStatus | None


@dataclass(frozen=True)
class PathStatus:
    """A path and how many subflows are on it; ``present``: whether its interface is."""

    name: str
    interface: str
    present: bool
    subflows: int
    throttled: int


@dataclass(frozen=True)
class ClassStatus:
    """An HTB class, the kernel's counters since it was opened (bytes of Ethernet frames), and the bytes queued now.

    The counters are None if they could not be read: the class or its device is gone.
    """

    device: str
    id: Annotated[str, Field(alias="class")]
    direction: str
    rule: str
    owner: str
    rate: str
    ceiling: str
    subflows: int
    sent_bytes: int | None
    sent_packets: int | None
    dropped_packets: int | None
    backlog_bytes: int | None


@dataclass(frozen=True)
class SubflowStatus:
    """A subflow; values of its socket (``sent_bytes`` to ``rtt_us``) are None if they are not known.

    ``download`` and ``upload`` are the ids of its classes.
    """

    local: str
    local_port: int
    remote: str
    remote_port: int
    interface: str
    path: str | None
    address_id: int
    initial: bool
    backup: bool
    age_s: float
    rule: str | None
    throttled: bool
    sent_bytes: int | None
    received_bytes: int | None
    rtt_us: int | None
    dry_run: bool
    download: str | None
    upload: str | None


@dataclass(frozen=True)
class SessionStatus:
    """A session by its token, eight hexadecimal digits."""

    token: str
    age_s: float
    active_subflows: int
    subflows: tuple[SubflowStatus, ...]


@dataclass(frozen=True)
class CaptureStatus:
    """Packets on one interface that the sniffer's filter passed, that were dropped, and that could not be read."""

    passed: int
    dropped: int
    unreadable: int


@dataclass(frozen=True)
class SteeringStatus:
    """The mode, the sessions that have a backup by decision, and decisions by their kind.

    ``learned`` are pairs of paths of which the worse is left out from the join on.
    """

    mode: str = "off"
    sessions: int = 0
    learned: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict)


NOT_STEERED = SteeringStatus()


@dataclass(frozen=True)
class Status:
    """The whole status. Of classes and sessions only the first are listed; the totals count all.

    ``counters`` are by kind of event, ``capture`` is by interface; ``privacy`` says how much of clients' addresses
    there is.
    """

    policy: str
    source: str
    uptime_s: float
    sessions_total: int
    subflows_total: int
    throttled_total: int
    classes_total: int
    rules: tuple[RuleStatus, ...]
    paths: tuple[PathStatus, ...]
    classes: tuple[ClassStatus, ...]
    sessions: tuple[SessionStatus, ...]
    counters: Mapping[str, int]
    capture: Mapping[str, CaptureStatus]
    steering: SteeringStatus = NOT_STEERED
    privacy: Privacy = "full"

    @property
    def unread_classes(self) -> int:
        """Of the classes listed, how many could not be read."""
        return sum(entry.sent_bytes is None for entry in self.classes)


@dataclass(frozen=True)
class FoundSessions:
    """Those that fit a query, of which ``sessions`` is the part that was asked for; ``total`` counts all."""

    uptime_s: float
    total: int
    sessions: tuple[SessionStatus, ...]


# Made when they are used first: most of what loads this uses neither.


@cache
def _status() -> TypeAdapter[Status]:
    return TypeAdapter(Status)


@cache
def _found() -> TypeAdapter[FoundSessions]:
    return TypeAdapter(FoundSessions)


def encode(status: Status) -> Json:
    """``status`` as the types of JSON."""
    document: Json = _status().dump_python(status, mode="json", by_alias=True)
    return document


def encode_found(found: FoundSessions) -> bytes:
    """``found`` as JSON."""
    return _found().dump_json(found)


def decode(document: object) -> Status:
    """What ``encode`` gave; raises CommandError, exit 69, if it is something else. Unknown members are ignored."""
    return _decoded(_status(), document)


def decode_found(document: object) -> FoundSessions:
    """The same of sessions."""
    return _decoded(_found(), document)


def _decoded(adapter: TypeAdapter[_T], document: object) -> _T:
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        message = f"the throttler's status is not of this version ({where}): restart the throttler"
        raise CommandError(Exit.UNAVAILABLE, message) from error

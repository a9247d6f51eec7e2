"""The daemon's status, for text, view, metrics and experiments: what the API's documents have, as them."""

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from tributary.api.documents import Document, HtbClass, Session
from tributary.settings.privacy import Privacy


class QuotaStatus(Document):
    """A quota in bytes per owner and period; ``used`` by all owners together, ``max_used`` by the one that used
    most.
    """

    bytes: int
    period: str
    used: int
    max_used: int
    exhausted: int


class RuleStatus(Document):
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


class PathStatus(Document):
    """A path and how many subflows are on it; ``present``: whether its interface is."""

    name: str
    interface: str
    present: bool
    subflows: int
    throttled: int


class CaptureStatus(Document):
    """Packets on one interface that the sniffer's filter passed, that were dropped, and that could not be read."""

    passed: int
    dropped: int
    unreadable: int


class SteeringStatus(Document):
    """The mode, the sessions that have a backup by decision, and decisions by their kind.

    ``learned`` are pairs of paths of which the worse is left out from the join on.
    """

    mode: str = "off"
    sessions: int = 0
    learned: int = 0
    decisions: Mapping[str, int] = {}


NOT_STEERED = SteeringStatus()


class Status(Document):
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
    classes: tuple[HtbClass, ...]
    sessions: tuple[Session, ...]
    counters: Mapping[str, int]
    capture: Mapping[str, CaptureStatus]
    steering: SteeringStatus = NOT_STEERED
    privacy: Privacy = "full"

    @property
    def unread_classes(self) -> int:
        """Of the classes listed, how many could not be read."""
        return sum(entry.sent is None for entry in self.classes)


class Carried(NamedTuple):
    """What the ``subflow`` of a session's token has carried, for metrics; None is not known."""

    subflow: Hashable
    path: str | None
    sent: int | None
    received: int | None


class FoundSessions(Document):
    """Those that fit a query, of which ``sessions`` is the part that was asked for; ``total`` counts all."""

    uptime_s: float
    total: int
    sessions: tuple[Session, ...]

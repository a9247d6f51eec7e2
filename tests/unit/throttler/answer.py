"""A status as the daemon gives it, for the tests of all that shows it."""

from copy import deepcopy
from typing import Any

from throttler.service.status import Status
from tributary.api.answers import decoded
from tributary.api.documents import Session
from tributary.api.places import THROTTLER

COUNTERS = ("sent", "packets", "dropped", "backlog")
"""Those of a class."""

_RULE: dict[str, object] = {"name": "wired-slow", "runtime": False, "dry_run": False, "active": True}
_RULE |= {"shared_by": "subflow", "rate": "5mbit", "subflows": 1, "classes": 1, "matches": 17, "quota": None}

_SPENT = {"used": 5_000_000_000, "max_used": 3_000_000_000, "exhausted": 0}
_QUOTA = _RULE | {"name": "lte-quota", "shared_by": "client", "rate": None, "active": False}
_QUOTA |= {"quota": {"bytes": 20_000_000_000, "period": "month", **_SPENT}}

_CLASS: dict[str, object] = {"device": "wired", "id": "5452:1", "direction": "download", "rule": "wired-slow"}
_CLASS |= {"owner": "10.0.1.2:40000", "rate": "5mbit", "ceiling": "5mbit", "subflows": 1}
_CLASS |= zip(COUNTERS, (1234, 5, 7, 0), strict=True)
_CLASS |= {"sent_rate": None, "drop_rate": None}

_RATES = {"sent_rate": None, "received_rate": None}
_HELD: dict[str, object] = {"local": "10.0.1.1:3128", "remote": "10.0.1.2:40000", "path": "wired", **_RATES}
_HELD |= {"initial": True, "backup": False, "rule": "wired-slow", "throttled": True, "counted_by": None}
_HELD |= {"download": "5452:1", "upload": None, "sent": 1000, "received": 45, "rtt": 0.02}

_FREE = _HELD | {side: f"[2001:db8:aaaa:bbbb:cccc:dddd:eeee:{n}]:40000" for n, side in ((1, "local"), (2, "remote"))}
_FREE |= {"path": None, "initial": False, "backup": True, "rule": None, "throttled": False, "download": None}
_FREE |= {"sent": 2000, "received": None, "rtt": None}

_SESSION: dict[str, object] = {"token": "1a2b3c4d", "client": "10.0.1.2", "age": 1.5, "active": 1, "throttled": 1}
_SESSION |= {"sent": 3000, "received": 45, "subflows": [_HELD, _FREE], **_RATES}

_ANSWER = {
    "policy": "/etc/x.toml",
    "source": "kernel",
    "uptime_s": 12.3,
    "sessions_total": 1,
    "subflows_total": 2,
    "throttled_total": 1,
    "classes_total": 1,
    "rules": [_RULE, _QUOTA],
    "paths": [{"name": "wired", "interface": "wired", "present": True, "subflows": 1, "throttled": 1}],
    "classes": [_CLASS],
    "sessions": [_SESSION],
    "counters": {"joins established": 1, "elements added": 3},
    "capture": {"wired": {"passed": 10, "dropped": 2, "unreadable": 1}},
    "steering": {"mode": "on", "sessions": 1, "learned": 2, "decisions": {"trials": 3}},
    "privacy": "full",
}


def document(**changes: object) -> dict[str, Any]:
    """A fresh document with some of its members replaced."""
    return deepcopy(_ANSWER) | changes


def answer(**changes: Any) -> Status:
    """The same as its type."""
    return decoded(Status, _ANSWER, THROTTLER).model_copy(update=changes)


def unread(status: Status) -> Status:
    """The same, but none of its classes could be read."""
    nothing = dict.fromkeys(COUNTERS)
    classes = tuple(entry.model_copy(update=nothing) for entry in status.classes)
    return status.model_copy(update={"classes": classes})


def session(status: Status, **changes: Any) -> Session:
    """Its first session with some members replaced."""
    return status.sessions[0].model_copy(update=changes)

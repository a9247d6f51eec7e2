"""A status as the daemon gives it, for the tests of all that shows it."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from throttler.service.status import SessionStatus, Status, decode

COUNTERS = ("sent_bytes", "sent_packets", "dropped_packets", "backlog_bytes")
"""Those of a class."""

_RULE: dict[str, object] = {"name": "wired-slow", "runtime": False, "dry_run": False, "active": True}
_RULE |= {"shared_by": "subflow", "rate": "5mbit", "subflows": 1, "classes": 1, "matches": 17, "quota": None}

_SPENT = {"used": 5_000_000_000, "max_used": 3_000_000_000, "exhausted": 0}
_QUOTA = _RULE | {"name": "lte-quota", "shared_by": "client", "rate": None, "active": False}
_QUOTA |= {"quota": {"bytes": 20_000_000_000, "period": "month", **_SPENT}}

_CLASS: dict[str, object] = {"device": "wired", "class": "5452:1", "direction": "download", "rule": "wired-slow"}
_CLASS |= {"owner": "10.0.1.2:40000", "rate": "5mbit", "ceiling": "5mbit", "subflows": 1}
_CLASS |= zip(COUNTERS, (1234, 5, 7, 0), strict=True)

_HELD: dict[str, object] = {"local": "10.0.1.1", "local_port": 3128, "remote": "10.0.1.2", "remote_port": 40000}
_HELD |= {"interface": "wired", "path": "wired", "address_id": 0, "initial": True, "backup": False, "age_s": 1.5}
_HELD |= {"rule": "wired-slow", "throttled": True, "dry_run": False, "download": "5452:1", "upload": None}
_HELD |= {"sent_bytes": 1000, "received_bytes": 45, "rtt_us": 20000}

_FREE = _HELD | {side: f"2001:db8:aaaa:bbbb:cccc:dddd:eeee:{n}" for n, side in ((1, "local"), (2, "remote"))}
_FREE |= {"interface": "wlan0", "path": None, "address_id": 2, "initial": False, "backup": True}
_FREE |= {"rule": None, "throttled": False, "download": None}
_FREE |= {"sent_bytes": 2000, "received_bytes": None, "rtt_us": None}

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
    "sessions": [{"token": "1a2b3c4d", "age_s": 1.5, "active_subflows": 1, "subflows": [_HELD, _FREE]}],
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
    return replace(decode(_ANSWER), **changes)


def unread(status: Status) -> Status:
    """The same, but none of its classes could be read."""
    nothing = dict.fromkeys(COUNTERS)
    return replace(status, classes=tuple(replace(entry, **nothing) for entry in status.classes))  # type: ignore[arg-type]


def session(status: Status, **changes: Any) -> SessionStatus:
    """Its first session with some members replaced."""
    return replace(status.sessions[0], **changes)

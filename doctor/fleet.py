"""Whether a node of a fleet is announced to routers, by what ``tributary-anycast run`` writes (docs/fleet.md)."""

from collections.abc import Mapping
from typing import Any

from doctor.findings import Finding, State, ok

UNIT = "tributary-anycast"


def judge(status: Mapping[str, Any] | None) -> Finding:
    """Nobody but an administrator, or an upgrade, withdraws a node for long; ``status`` of tributary.api.fleet_file."""
    if not status:
        return _wrong("nothing is announced: it does not run", UNIT)
    if status["announced"] is None:
        return _wrong("BIRD does not answer", "bird")
    if status["drained"] is not None:
        advice = "`tributary-anycast announce` takes it back into service"
        return Finding(UNIT, State.NOTE, f"withdrawn: drained ({status['drained']})", advice=advice)
    if not status["answers"]:
        return Finding(UNIT, State.WRONG, "withdrawn: a proxy does not answer")
    if not status["heard"]:
        advice = "`birdc show protocols` says why, such as a wrong password or AS"
        return Finding(UNIT, State.WRONG, "not announced: no router hears it", advice=advice)
    return ok(UNIT, "announced to a router")


def _wrong(message: str, unit: str) -> Finding:
    advice = f"journalctl -u {unit} says why it ended"
    return Finding(UNIT, State.WRONG, message, (("systemctl", "start", unit),), advice)

"""Is a system that has just started all right? Pure: what systemctl(1) shows of units in, a verdict out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

COMPLETE = "boot-complete.target"
"""Units of others that judge a start are before this one (systemd.special(7))."""

PROPERTIES = ("Id", "Type", "ActiveState", "Result", "ConditionResult", "ConditionTimestampMonotonic")

_OWN = "tributary-upgrade"


class Health(Enum):
    """The verdict; UNDECIDED: something is still on its way."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Verdict:
    """``units`` are those that keep it from being good."""

    health: Health
    units: tuple[str, ...] = ()


def asked(enabled: Iterable[str]) -> list[str]:
    """The units that a verdict needs, of those ``enabled``: all of Tributary's, but for what passes the verdict."""
    return [*sorted(unit for unit in enabled if not unit.startswith(_OWN)), COMPLETE]


def parse(shown: str) -> list[dict[str, str]]:
    """Units from what `systemctl show --property=...` prints of several."""
    blocks = (block for block in shown.split("\n\n") if block.strip())
    return [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in blocks]


def verdict(units: Iterable[Mapping[str, str]]) -> Verdict:
    """Good if all daemons run, all that runs once has ended well, and nothing is on its way."""
    judged = [(unit["Id"], _health(unit)) for unit in units]
    for health in (Health.BAD, Health.UNDECIDED):
        if found := tuple(name for name, each in judged if each is health):
            return Verdict(health, found)
    return Verdict(Health.GOOD)


def _health(unit: Mapping[str, str]) -> Health:
    state = unit["ActiveState"]
    if state == "activating":
        # Also one that failed and is started again: what it waited for may be there a moment later. Patience ends.
        return Health.UNDECIDED
    if state == "failed" or unit.get("Result", "success") != "success":
        return Health.BAD
    if state in ("active", "reloading"):
        return Health.GOOD
    # What a condition keeps from starting is none of this box's; what runs once is over. systemd says `no` also of
    # conditions that nobody looked at yet: the unit waits for another one, or what it requires has failed.
    tried = unit["ConditionTimestampMonotonic"] != "0"
    over = unit.get("Type") == "oneshot" or unit["ConditionResult"] == "no"
    return Health.GOOD if state == "inactive" and tried and over else Health.UNDECIDED

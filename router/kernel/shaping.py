"""Qdiscs, by tc(8) and ip(8): which stand, and one step after another."""

import json
import shutil
from collections.abc import Collection, Iterator
from typing import Any

from router.ours import SHAPED
from router.shaping import HANDLE, PREFERENCE, ChangeRates, Kind, RemoveShape, SetShape, ShapingStep, Stands, lines
from tributary.process import QUICK, TimedOut, run
from tributary.settings.errors import CommandError, Exit

_NOBODYS = "0:"
"""The handle of a qdisc that the kernel attached by itself (tc(8), QDISCS)."""
_TAKEN_AWAY = " delete "
"""In a command that may find nothing to do."""


def look() -> Stands:
    """What stands in this network namespace; nothing where tc is not installed. Raises CommandError, exit 71."""
    if shutil.which("tc") is None:
        return Stands()
    found = _shown("qdisc", "show")
    roots = {each["dev"]: each["handle"] for each in found if each.get("root")}
    return Stands(
        ours=frozenset(device for device, handle in roots.items() if handle == HANDLE),
        foreign=frozenset(device for device, handle in roots.items() if handle not in (HANDLE, _NOBODYS)),
        led=frozenset(_led({each["dev"] for each in found if each["kind"] == "clsact"})),
    )


def _led(devices: Collection[str]) -> Iterator[str]:
    for device in sorted(devices):
        filters = _shown("filter", "show", "dev", device, "ingress", "pref", str(PREFERENCE))
        actions = (action for each in filters for action in each.get("options", {}).get("actions", []))
        if any(action.get("to_dev", "").startswith(SHAPED) for action in actions):
            yield device


def _shown(*words: str) -> list[dict[str, Any]]:
    done = run(["tc", "-json", *words], timeout=QUICK)
    try:
        return list(json.loads(done.stdout or "[]"))
    except ValueError as error:
        raise CommandError(Exit.SYSTEM, f"tc {' '.join(words)}: no JSON: {done.stderr.strip()}") from error


class Shaper:
    """Carries steps out, with the best kind of queue that the kernel has, once it is known."""

    def __init__(self) -> None:
        self.kind: Kind | None = None

    def carry_out(self, step: ShapingStep) -> None:
        """Raises CommandError: exit 71 if the kernel refuses it, 69 if it has none of the kinds, or tc is not there."""
        if isinstance(step, RemoveShape):
            _do(step, Kind.SHORT)
            _leave_no_empty_clsact(step.device)
        elif isinstance(step, ChangeRates) or self.kind:
            _do(step, self.kind or Kind.SHORT)
        else:
            self.kind = _tried(step)


def _tried(step: SetShape) -> Kind:
    refused = ""
    for kind in Kind:
        try:
            _do(step, kind)
        except TimedOut:
            raise
        except CommandError as failure:
            refused = str(failure)
        else:
            return kind
    raise CommandError(Exit.UNAVAILABLE, f"the kernel shapes no link: {refused}")


def _do(step: ShapingStep, kind: Kind) -> None:
    for line in lines(step, kind):
        done = run(line.split(), timeout=QUICK)
        # A clsact that is there already is as good as one that is made: without any, the filter behind it is refused.
        if done.returncode and not line.endswith(" clsact") and _TAKEN_AWAY not in line:
            raise CommandError(Exit.SYSTEM, f"{line}: {' '.join(done.stderr.split())}")


def _leave_no_empty_clsact(device: str) -> None:
    if device.startswith(SHAPED):
        return
    if not any(_shown("filter", "show", "dev", device, hook) for hook in ("ingress", "egress")):
        run(["tc", "qdisc", "delete", "dev", device, "clsact"], timeout=QUICK)

"""Qdiscs, by tc(8) and ip(8): which exist, and one operation after another."""

import json
import shutil
from collections.abc import Collection, Iterator
from typing import Any

from router.identifiers import IFB_PREFIX
from router.shaping.model import (
    HANDLE,
    PREFERENCE,
    ChangeRates,
    InstalledQdiscs,
    Kind,
    RemoveShape,
    SetShape,
    ShapingOperation,
    lines,
)
from tributary.process import QUICK, TimedOut, run
from tributary.settings.errors import CommandError, Exit

_DEFAULT_HANDLE = "0:"
"""The handle of a qdisc that the kernel attached by itself (tc(8), QDISCS)."""
_DELETES = " delete "
"""In a command that may fail because there is nothing to delete."""


def installed_qdiscs() -> InstalledQdiscs:
    """The qdiscs of this network namespace; none where tc is not installed. Raises CommandError, exit 71."""
    if shutil.which("tc") is None:
        return InstalledQdiscs()
    found = _shown("qdisc", "show")
    roots = {each["dev"]: each["handle"] for each in found if each.get("root")}
    return InstalledQdiscs(
        owned=frozenset(device for device, handle in roots.items() if handle == HANDLE),
        foreign=frozenset(device for device, handle in roots.items() if handle not in (HANDLE, _DEFAULT_HANDLE)),
        redirected=frozenset(_redirected({each["dev"] for each in found if each["kind"] == "clsact"})),
    )


def _redirected(devices: Collection[str]) -> Iterator[str]:
    for device in sorted(devices):
        filters = _shown("filter", "show", "dev", device, "ingress", "pref", str(PREFERENCE))
        actions = (action for each in filters for action in each.get("options", {}).get("actions", []))
        if any(action.get("to_dev", "").startswith(IFB_PREFIX) for action in actions):
            yield device


def _shown(*words: str) -> list[dict[str, Any]]:
    done = run(["tc", "-json", *words], timeout=QUICK)
    try:
        return list(json.loads(done.stdout or "[]"))
    except ValueError as error:
        raise CommandError(Exit.SYSTEM, f"tc {' '.join(words)}: no JSON: {done.stderr.strip()}") from error


class Shaper:
    """Applies operations with the best kind of queue that the kernel has, once it is known."""

    def __init__(self) -> None:
        self.kind: Kind | None = None

    def apply(self, operation: ShapingOperation) -> None:
        """Raises CommandError: exit 71 if the kernel refuses it, 69 if it has none of the kinds, or tc is missing."""
        if isinstance(operation, RemoveShape):
            _do(operation, Kind.SHORT)
            _leave_no_empty_clsact(operation.device)
        elif isinstance(operation, ChangeRates) or self.kind:
            _do(operation, self.kind or Kind.SHORT)
        else:
            self.kind = _tried(operation)


def _tried(operation: SetShape) -> Kind:
    refused = ""
    for kind in Kind:
        try:
            _do(operation, kind)
        except TimedOut:
            raise
        except CommandError as failure:
            refused = str(failure)
        else:
            return kind
    raise CommandError(Exit.UNAVAILABLE, f"the kernel shapes no link: {refused}")


def _do(operation: ShapingOperation, kind: Kind) -> None:
    for line in lines(operation, kind):
        done = run(line.split(), timeout=QUICK)
        # An existing clsact is as good as a new one. Without any, the filter that follows is refused.
        if done.returncode and not line.endswith(" clsact") and _DELETES not in line:
            raise CommandError(Exit.SYSTEM, f"{line}: {' '.join(done.stderr.split())}")


def _leave_no_empty_clsact(device: str) -> None:
    if device.startswith(IFB_PREFIX):
        return
    if not any(_shown("filter", "show", "dev", device, hook) for hook in ("ingress", "egress")):
        run(["tc", "qdisc", "delete", "dev", device, "clsact"], timeout=QUICK)

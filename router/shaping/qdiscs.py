"""Qdiscs, by tc(8) and ip(8): which exist, and one operation after another."""

import shutil
from collections.abc import Collection

from router.identifiers import IFB_PREFIX
from router.shaping.model import (
    CHILD,
    HANDLE,
    PREFERENCE,
    InstalledQdiscs,
    Kind,
    Queue,
    RemoveShape,
    SetShape,
    ShapingOperation,
    lines,
)
from tributary.kernel import tc
from tributary.kernel.process import QUICK, TimedOut, run
from tributary.settings.errors import CommandError, Exit

_DELETES = " delete "
"""In a command that may fail because there is nothing to delete."""


def installed_qdiscs() -> InstalledQdiscs:
    """The qdiscs of this network namespace; none where tc is not installed. Raises CommandError, exit 71."""
    if shutil.which("tc") is None:
        return InstalledQdiscs()
    found = tc.qdiscs()
    roots = [each for each in found if each.is_root and not each.is_default]
    fair = {each.interface for each in found if each.handle == CHILD}
    return InstalledQdiscs(
        owned={each.interface: Queue(_kind(each, fair), each.rate) for each in roots if each.handle == HANDLE},
        foreign=frozenset(each.interface for each in roots if each.handle != HANDLE),
        redirected=frozenset(each.interface for each in found if each.kind == "clsact" and _redirects(each.interface)),
    )


def _kind(root: tc.Qdisc, fair: Collection[str]) -> Kind:
    if root.kind == "cake":
        return Kind.CAKE
    return Kind.FQ_CODEL if root.interface in fair else Kind.SHORT


def _redirects(device: str) -> bool:
    filters = tc.shown("filter", "show", "dev", device, "ingress", "pref", str(PREFERENCE))
    actions = (action for each in filters for action in each.get("options", {}).get("actions", []))
    return any(action.get("to_dev", "").startswith(IFB_PREFIX) for action in actions)


def apply(operation: ShapingOperation, kind: Kind | None) -> Kind | None:
    """Applies it with that kind of queue, None for the best that the kernel has; returns the kind, once it is known.

    Raises CommandError: exit 71 if the kernel refuses it, 69 if it has none of the kinds, or tc is missing.
    """
    if isinstance(operation, SetShape) and kind is None:
        return _tried(operation)
    _do(operation, kind or Kind.SHORT)
    if isinstance(operation, RemoveShape):
        _leave_no_empty_clsact(operation.device)
    return kind


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
    if not any(tc.shown("filter", "show", "dev", device, hook) for hook in ("ingress", "egress")):
        run(["tc", "qdisc", "delete", "dev", device, "clsact"], timeout=QUICK)

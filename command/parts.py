"""What the parts say that only some gateways have: a fleet, an overlay, the front of a hand-off.

All raise CommandError, exit 69, where the part does not run.
"""

import re
import time
from collections.abc import Iterator
from contextlib import closing

from tributary.api import fleet_file
from tributary.api.answers import decoded
from tributary.api.parts import BackEnd, Fleet, HandOff, Overlay
from tributary.api.places import OVERLAY
from tributary.daemons.text import plural
from tributary.settings.errors import CommandError, Exit

_METRICS = "127.0.0.1", 9465
"""Where a converter serves its metrics that the playbook has set up."""
_TIMEOUT = 2.0
_LONGEST = 4 << 20
_SAMPLE = re.compile(r'^tributary_converter_(\w+)(?:\{(?:\w+="([^"]*)")?\})? (\d+)$', re.MULTILINE)
"""One without a label or with one."""

Samples = dict[tuple[str, str], int]


def overlay() -> Overlay:
    """The overlay, as its control plane publishes it."""
    return decoded(Overlay, OVERLAY.ask("status"), OVERLAY)


def handoff() -> HandOff:
    """The front of a hand-off."""
    found = read_front(_metrics())
    if found is None:
        raise CommandError(Exit.UNAVAILABLE, "the converter is no front of a hand-off")
    return found


def read_front(samples: Samples) -> HandOff | None:
    """The front of which these are the metrics; None for a converter that is none."""
    if ("handoff_switch_up", "") not in samples:
        return None
    return HandOff(
        switch_up=samples["handoff_switch_up", ""] > 0,
        back_ends=tuple(
            BackEnd(name=name, up=up > 0, connections=samples.get(("handoff_back_end_connections", name), 0))
            for name, up in _labelled(samples, "handoff_back_end_up")
        ),
        requests=dict(_labelled(samples, "handoff_requests_total")),
        failures=dict(_labelled(samples, "handoff_failures_total")),
    )


def fleet() -> Fleet:
    """Whether this gateway is announced."""
    status = fleet_file.read(time.time())
    if status is None:
        raise CommandError(Exit.UNAVAILABLE, "no tributary-anycast runs here")
    if not status:
        raise CommandError(Exit.UNAVAILABLE, f"{fleet_file.FILE} is old: tributary-anycast does not run")
    try:
        return Fleet.model_validate({**status, "connections": _open_connections()})
    except ValueError as error:
        raise CommandError(Exit.UNAVAILABLE, f"{fleet_file.FILE} cannot be read ({type(error).__name__})") from error


def _open_connections() -> int | None:
    try:
        return _metrics().get(("open_connections", ""))
    except CommandError:
        return None


def _metrics() -> Samples:
    # Not at the top: only some commands ask the converter.
    from http.client import HTTPConnection, HTTPException

    address = "{}:{}".format(*_METRICS)
    try:
        with closing(HTTPConnection(*_METRICS, timeout=_TIMEOUT)) as connection:
            connection.request("GET", "/metrics")
            return samples(connection.getresponse().read(_LONGEST).decode())
    except (OSError, HTTPException, ValueError) as error:
        raise CommandError(Exit.UNAVAILABLE, f"no converter serves metrics at {address}: {error}") from error


def samples(exposition: str) -> Samples:
    """The converter's whole numbers by name and label value, if they have no more than one label."""
    return {(name, label): int(number) for name, label, number in _SAMPLE.findall(exposition)}


def _labelled(samples: Samples, name: str) -> Iterator[tuple[str, int]]:
    return ((label, number) for (each, label), number in sorted(samples.items()) if each == name)


def overlay_summary(overlay: Overlay) -> tuple[float, str]:
    """For how long it has been read here, and what there is, in one line."""
    controller = f"controller {overlay.controller}" if overlay.controller else "no controller"
    problem = f"; not read for {overlay.age or 0:.0f} s: {overlay.problem}" if overlay.problem else ""
    return overlay.uptime, f"{overlay.nodes_up} of {plural(overlay.nodes_total, 'node')} up, {controller}{problem}"


def handoff_summary(front: HandOff) -> tuple[None, str]:
    """What the front has, in one line."""
    up = sum(each.up for each in front.back_ends)
    switch = "up" if front.switch_up else "away"
    handed = front.requests.get("handed-over", 0)
    back_ends = f"{up} of {plural(len(front.back_ends), 'back end')} up"
    return None, f"switch {switch}, {back_ends}, {plural(handed, 'request')} handed over"


def fleet_summary(fleet: Fleet) -> tuple[None, str]:
    """Whether the gateway is announced, and why not, in one line."""
    leaving = fleet.announced is False and fleet.connections is not None
    return None, fleet_state(fleet) + (f", {plural(fleet.connections or 0, 'connection')} left" if leaving else "")


def fleet_state(fleet: Fleet) -> str:
    """``announced``, or why it is not."""
    if fleet.announced is None:
        return "not known: BIRD does not answer"
    if fleet.drained is not None:
        return f"{'still announced' if fleet.announced else 'withdrawn'}: drained ({fleet.drained})"
    if not fleet.answers:
        return f"{'announced, but' if fleet.announced else 'withdrawn:'} a proxy does not answer"
    if not fleet.heard:
        return "not announced: no router hears it"
    return "announced" if fleet.announced else "withdrawn: about to be announced"

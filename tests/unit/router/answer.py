"""A status as the daemon gives it, with tunnels: of two links, one has everything and the other is down."""

from copy import deepcopy
from typing import Any

from router import api
from tests.unit.router.enrolled import FIRST
from tests.unit.router.house import DSL, LTE, SETTINGS, Script, changed, cut, house
from tributary.kernel.state import Octets
from tributary.wireguard.enrolment import text

CARRIED = {"usb0": Octets(1000, 200), "tb0": Octets(30, 40), "tb2": Octets(3, 4)}
"""By interface."""


def answer() -> dict[str, Any]:
    script = Script(text=SETTINGS + 'monthly_cap = "50GB"\n' + text(FIRST))
    reconciler = script.reconciler
    script.now(DSL, LTE)
    reconciler.health.record("lte", None)
    reconciler.health.record("lte", 0.0312)
    reconciler.usage.set("lte", 20 * 10**9)
    reconciler.paths.results["lte"] = 1480
    script.kernel = changed(script.kernel, house(cut(DSL), LTE))
    script.reconcile(100.0)
    status = deepcopy(api.status(reconciler, 130.0, 130.0))
    shapers = {"dsl": None, "lte": {"download": 20_000_000, "upload": None}}
    for link in status["wan"]:
        link |= {"shaper": shapers[link["name"]], "set": {}}
    return {"settings": "/etc/tributary/router.toml", "uptime_s": 12.5, **status}

"""One curl fetches objects from both back ends by one kept connection, and the cables are read before and after."""

import filecmp
import os
from typing import Any

from experiments.handoff.network import BACK_ENDS, URL, Network

_TURNS = 3
"""Each back end is asked so often, in turn."""


def fetch_by_one_connection(network: Network, size: int) -> dict[str, Any]:
    """Objects of so many bytes, by turns from both back ends: ``objects``, each with its ``path``, ``bytes`` and
    ``seconds``, and whether it came ``whole``; the client's ``connections``; ``cable_bytes`` that passed the cable to
    each node meanwhile, both ways.
    """
    places = {
        f"{name}/{turn}": network.objects(name) / name / str(turn) for turn in range(_TURNS) for name in BACK_ENDS
    }
    arguments = ["--write-out", "%{num_connects} %{time_total}\n"]
    for path, place in places.items():
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(os.urandom(size))
        arguments += ["--output", f"{place}-got", URL + path]
    before = _by_cable(network)
    told = network.nodes["client"].run("curl", "--silent", "--show-error", *arguments).splitlines()
    after = _by_cable(network)
    connects, seconds = zip(*(line.split() for line in told), strict=True)
    objects = [
        {
            "path": path,
            "bytes": size,
            "whole": filecmp.cmp(place, f"{place}-got", shallow=False),
            "seconds": float(took),
        }
        for (path, place), took in zip(places.items(), seconds, strict=True)
    ]
    passed = {name: after[name] - before[name] for name in after}
    return {"objects": objects, "connections": sum(map(int, connects)), "cable_bytes": passed}


def _by_cable(network: Network) -> dict[str, int]:
    return {name: sum(network.passed(name)) for name in network.nodes if name != "switch"}

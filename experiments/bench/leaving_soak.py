"""Transfers over a link that loses and reorders packets, until their relay has left 10,000 of them in their midst.

    client ==200 Mbit/s, 10 ms, 1 % lost, packets overtake each other== relay ---- server

Downloads and uploads in turn, 100 at a time; every byte is checked. Whatever the moment is at which the relay leaves a
connection, with segments lost, late or sent again, the ends must not notice. It stays where a transfer is over before
its slow start is seen to be.
"""

import json
import time
from math import ceil
from statistics import median
from typing import Any

from pydantic import Field

from experiments.scenarios.one_link import ORIGIN, Linked, OneLink
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from experiments.testbed import native
from experiments.testbed.node import Process
from experiments.testbed.topology import Profile, Topology
from tributary.settings.failure import Exit, Failure
from tributary.settings.files import check

_LINK = {"rate": "200mbit", "delay": "10ms", "jitter": "2ms", "loss": "1%", "queue": 500}
_LOSSY = check({"links": {"lossy": _LINK}}, Profile, "the lossy link")
_RELAY = f"{Topology.PROXY4}:7000"
_AT_ONCE = 100
_BYTES, _AFTER = 500_000, 50_000
"""Of each transfer, and how many of them the relay passes on before it leaves."""
_LAST = 60
"""Seconds within which the last connection is over."""
_COUNTED = ("transfers", "left", "left_percent", "translated_percent", "refused", "deaf_ms")


class SoakOptions(Options):
    """``left``: goes on until so many transfers were left, or four times as many are over."""

    repeat: Repeat = 1
    left: int = Field(default=10_000, ge=1, description="a count, above 0")


def _measure(built: Linked, options: SoakOptions, point: Point, repetition: int) -> Reading:
    """Raises Failure (exit 1) if a byte was wrong."""
    testbed = built.testbed
    devices = ("--client-device", "lossy", "--server-device", "core")
    command = [str(native.relays().leaving), "--listen", _RELAY, "--to", ORIGIN, *devices, "--after", str(_AFTER)]
    with testbed.gateway.start("leaving-relay", command).wait_until_ready() as relay:
        transfers = 0
        for number in range(ceil(4 * options.left / _AT_ONCE)):
            how = "--upload" if number % 2 else "--verify"
            bulk = ("bulk", "--to", _RELAY, "--connections", str(_AT_ONCE), "--bytes", str(_BYTES), how)
            # It fails for any wrong byte and any connection that breaks.
            testbed.client.run("timeout", str(_LAST), str(native.build().load), *bulk)
            transfers += _AT_ONCE
            if relay.output().count('"left"') >= options.left:
                break
        lines = _of_all(relay, transfers)
    return Reading(point, repetition, told(lines), {})


def _of_all(relay: Process, transfers: int) -> list[dict[str, Any]]:
    """What the relay has told when all are over; raises Failure (exit 1) if they are not in time."""
    end = time.monotonic() + _LAST
    while True:
        lines = [json.loads(line) for line in relay.output().splitlines() if line.startswith("{")]
        if sum("relayed" in line for line in lines) == transfers:
            return lines
        if time.monotonic() > end:
            message = f"of {transfers} connections {len(lines)} lines were told: {lines[-3:]}"
            raise Failure(Exit.WRONG_RESULT, message)
        time.sleep(0.1)


def told(lines: list[dict[str, Any]]) -> dict[str, float]:
    """What the relay's lines come to. Pure."""
    ended = [line for line in lines if "relayed" in line]
    left = [line for line in ended if "translated" in line]
    translated, relayed = (sum(line[what] for line in left) for what in ("translated", "relayed"))
    return {
        "transfers": float(len(ended)),
        "left": float(len(left)),
        "left_percent": 100 * len(left) / len(ended),
        "translated_percent": 100 * translated / (translated + relayed) if left else 0.0,
        "refused": float(sum(line["refused"] for line in left)),
        "deaf_ms": median([line["left"] for line in lines if "left" in line] or [0.0]),
    }


def figures(readings: Readings) -> Figures:
    """What was counted."""
    return Figures(values={name: median(readings.values(name)) for name in _COUNTED})


SCENARIO = benchmark(
    name="leaving-soak",
    question="A relay leaves ten thousand transfers in their midst, over a link that loses: is every byte right?",
    about=__doc__,
    options=SoakOptions,
    quick={"left": 200},
    points=lambda _options: [{"link": "lossy"}],
    blueprint=lambda _options, _profile, _point: OneLink(_LOSSY),
    measure=_measure,
    figures=figures,
)

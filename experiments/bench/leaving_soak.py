"""Transfers over a link that loses and reorders packets, until their relay has left 10,000 of them in their midst.

    client ==200 Mbit/s, 10 ms, 1 % lost, packets overtake each other== relay ---- server

The relay is ``leaving-relay``, which does nothing else, and then the converter, by CONNECT. Downloads and uploads in
turn, 100 at a time; every byte is checked. Whatever the moment at which a connection is left, with segments lost, late
or sent again, the ends must not notice. It stays where a transfer is over before its slow start is seen to be.
"""

import json
import re
import time
from collections.abc import Callable, Sequence
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
from experiments.testbed.build import Testbed
from experiments.testbed.node import Process
from experiments.testbed.topology import Profile, Topology
from tributary.settings.failure import Exit, Failure
from tributary.settings.files import check

RELAY, CONVERTER = "leaving-relay", "converter"
_METRICS = "127.0.0.1:9465"
_LINK = {"rate": "200mbit", "delay": "10ms", "jitter": "2ms", "loss": "1%", "queue": 500}
_LOSSY = check({"links": {"lossy": _LINK}}, Profile, "the lossy link")
_DEVICES = ("lossy", "core")
_AT_ONCE = 100
_BYTES, _AFTER = 500_000, 50_000
"""Of each transfer, and how many of them are relayed before the connection is left."""
_LAST = 60
"""Seconds within which the last connection is over."""
_COUNTED = {
    RELAY: ("transfers", "left", "left_percent", "translated_percent", "refused", "deaf_ms"),
    CONVERTER: ("transfers", "left", "left_percent"),
}
_NAMES = {RELAY: "", CONVERTER: "converter_"}
"""What names of values have in front."""


class SoakOptions(Options):
    """``left``: goes on until so many transfers were left, or four times as many are over."""

    repeat: Repeat = 1
    left: int = Field(default=10_000, ge=1, description="a count, above 0")


def _measure(built: Linked, options: SoakOptions, point: Point, repetition: int) -> Reading:
    """Raises Failure (exit 1) if a byte was wrong."""
    of = {RELAY: _by_relay, CONVERTER: _by_converter}[str(point["by"])]
    return Reading(point, repetition, of(built.testbed, options.left), {})


def _by_relay(testbed: Testbed, wanted: int) -> dict[str, float]:
    """By the relay that does nothing else."""
    at = f"{Topology.PROXY4}:7000"
    devices = ("--client-device", _DEVICES[0], "--server-device", _DEVICES[1])
    command = [str(native.relays().leaving), "--listen", at, "--to", ORIGIN, *devices, "--after", str(_AFTER)]
    with testbed.gateway.start("leaving-relay", command).wait_until_ready() as relay:
        transfers = _transfer(testbed, ("--to", at), lambda: relay.output().count('"left"'), wanted)
        return told(_of_all(relay, transfers))


def _by_converter(testbed: Testbed, wanted: int) -> dict[str, float]:
    """By a converter with ``leave``, which tells how many it has left."""
    at = f"{Topology.PROXY4}:3128"
    settings = testbed.gateway.write("converter.toml", _settings(testbed, at))
    command = [str(testbed.programs().converter), "--config", str(settings)]
    with testbed.gateway.start("converter", command).wait_until_ready():
        route = ("--to", ORIGIN, "--via-connect", at)
        transfers = _transfer(testbed, route, lambda: _left_by_converter(testbed), wanted)
        left = _left_by_converter(testbed)
        return {"transfers": float(transfers), "left": float(left), "left_percent": 100 * left / transfers}


def _settings(testbed: Testbed, at: str) -> str:
    networks = json.dumps(list(Topology.CLIENT_NETWORKS))
    return (
        f"[clients]\nnetworks = {networks}\n[targets]\nallow = {json.dumps(list(Topology.OPENED))}\n"
        f'[control]\nsocket = "{testbed.gateway.directory}/control"\n[metrics]\naddress = "{_METRICS}"\n'
        f'[leaving]\ndevices = {json.dumps(_DEVICES)}\nafter = "{_AFTER}B"\n'
        f'[[listen]]\nkind = "http"\naddress = "{at}"\nmptcp = false\nleave = true\n'
    )


def _left_by_converter(testbed: Testbed) -> int:
    metrics = testbed.gateway.run("curl", "--silent", "--fail", f"http://{_METRICS}/metrics")
    found = re.search(r"^tributary_converter_left_total (\d+)$", metrics, re.MULTILINE)
    return int(found[1]) if found else 0


def _transfer(testbed: Testbed, route: Sequence[str], left: Callable[[], int], wanted: int) -> int:
    """Downloads and uploads in turn until so many were left, or four times as many are over; how many there were.

    Raises Failure (exit 1) for any wrong byte and any connection that breaks.
    """
    for number in range(ceil(4 * wanted / _AT_ONCE)):
        how = "--upload" if number % 2 else "--verify"
        bulk = ("bulk", *route, "--connections", str(_AT_ONCE), "--bytes", str(_BYTES), how)
        testbed.client.run("timeout", str(_LAST), str(native.build().load), *bulk)
        if left() >= wanted:
            return (number + 1) * _AT_ONCE
    return ceil(4 * wanted / _AT_ONCE) * _AT_ONCE


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
    values: dict[str, float] = {}
    for by, names in _COUNTED.items():
        counted = readings.at(by=by)
        values |= {_NAMES[by] + name: median(counted.values(name)) for name in names}
    return Figures(values=values)


SCENARIO = benchmark(
    name="leaving-soak",
    question="Ten thousand transfers are left in their midst, over a link that loses: is every byte right?",
    about=__doc__,
    options=SoakOptions,
    quick={"left": 200},
    points=lambda _options: [{"by": by} for by in _COUNTED],
    blueprint=lambda _options, _profile, _point: OneLink(_LOSSY),
    measure=_measure,
    figures=figures,
)

"""Ten thousand transfers over a link that loses and reorders packets, most of which their relay leaves in their midst.

    client ==200 Mbit/s, 10 ms, 1 % lost, packets overtake each other== relay ---- server

Downloads and uploads in turn, 100 at a time; every byte is checked. Whatever the moment is at which the relay leaves a
connection, with segments lost, late or sent again, the ends must not notice. It stays where the connection does not
come to rest within a second: there what was sent before is often not acknowledged by then.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

from pydantic import Field

from experiments.scenarios.cabled import Unlinked
from experiments.study.benchmark import benchmark
from experiments.study.figures import Figures
from experiments.study.readings import Point, Reading, Readings
from experiments.study.scenario import Options, Repeat
from experiments.testbed import native
from experiments.testbed.build import Testbed, standing
from experiments.testbed.node import Process
from experiments.testbed.tolerance import TOLERANCE
from experiments.testbed.topology import Profile, Topology
from tributary.settings.failure import Exit, Failure
from tributary.settings.files import check

_LINK = {"rate": "200mbit", "delay": "10ms", "jitter": "2ms", "loss": "1%", "queue": 500}
_LOSSY = check({"links": {"lossy": _LINK}}, Profile, "the lossy link")
_RELAY = f"{Topology.PROXY4}:7000"
_ORIGIN = f"{Topology.SERVER4}:8080"
_AT_ONCE = 100
_BYTES, _AFTER = 500_000, 50_000
"""Of each transfer, and how many of them the relay passes on before it leaves."""
_LAST = 60
"""Seconds within which the last connection is over."""
_COUNTED = ("transfers", "left", "left_percent", "translated_percent", "refused", "deaf_ms")


class SoakOptions(Options):
    """How many ``transfers`` there are in all."""

    repeat: Repeat = 1
    transfers: int = Field(default=10_000, ge=_AT_ONCE, multiple_of=_AT_ONCE, description="a multiple of 100, above 0")


@dataclass(frozen=True)
class Lossy(Unlinked):
    """The testbed with its one link, and an origin on the server."""

    testbed: Testbed


@dataclass(frozen=True)
class LossyLink:
    """The same before it stands."""

    def as_json(self) -> dict[str, object]:
        """For a manifest."""
        return {"link": _LINK}

    @contextmanager
    def standing(self, name: str, seed: int, tolerance: float = TOLERANCE) -> Iterator[Lossy]:  # noqa: ARG002
        """The testbed for the length of the block; ``seed`` is for what the link loses."""
        load = native.build().load
        with standing(name, _LOSSY, seed=seed) as testbed:
            origin = [str(load), "origin", "--listen", _ORIGIN]
            with testbed.server.start("origin", origin).wait_until_ready():
                yield Lossy(testbed)


def _measure(built: Lossy, options: SoakOptions, point: Point, repetition: int) -> Reading:
    """Raises Failure (exit 1) if a byte was wrong."""
    testbed = built.testbed
    devices = ("--client-device", "lossy", "--server-device", "core")
    command = [str(native.leaving_relay()), "--listen", _RELAY, "--to", _ORIGIN, *devices, "--after", str(_AFTER)]
    with testbed.gateway.start("leaving-relay", command).wait_until_ready() as relay:
        for number in range(options.transfers // _AT_ONCE):
            how = "--upload" if number % 2 else "--verify"
            bulk = ("bulk", "--to", _RELAY, "--connections", str(_AT_ONCE), "--bytes", str(_BYTES), how)
            # It fails for any wrong byte and any connection that breaks.
            testbed.client.run("timeout", str(_LAST), str(native.build().load), *bulk)
        lines = _of_all(relay, options.transfers)
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
    question="A relay leaves thousands of transfers in their midst, over a link that loses: is every byte right?",
    about=__doc__,
    options=SoakOptions,
    quick={"transfers": 400},
    points=lambda _options: [{"link": "lossy"}],
    blueprint=lambda _options, _profile, _point: LossyLink(),
    measure=_measure,
    figures=figures,
)

"""What do 100,000 throttled subflows cost? Memory, time, and the throughput of those who are not throttled.

Two pairs of nodes stand side by side, each with a throttler: one holds so many subflows, whose handshakes were played
on its wire, the other a single one. A plain TCP download runs through the shaped interface of either in turn.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from experiments.bench import pair
from experiments.study.blueprint import Ground, Standing
from experiments.study.experiment import Count, Experiment, Repeat, Seconds
from experiments.study.metrics import Metric, metrics_of, ratio
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed import native
from experiments.testbed.appliance import throttler_status
from experiments.testbed.build import Testbed
from experiments.testbed.cables import PATHS
from experiments.testbed.node import python
from experiments.testbed.topology import Profile
from experiments.testbed.usage import resident
from tributary.api.places import THROTTLER
from tributary.settings.errors import CommandError, Exit

_ORIGIN = f"{pair.LISTENER}:5001"
_BY_SESSION, _BY_CLIENT = 4, 100
RULE = {"name": "all", "min_subflows": 1, "path": PATHS[0], "rate": "5mbit", "shared_by": "client"}
_FULL, _SINGLE = "full table", "one element"
_TOOK = ("rss_mb", "install_s", "longest_answer_ms", "subflows", "classes", "capture_dropped")
_ASKED_EACH = 0.02
"""Seconds between two questions at the control socket."""


@dataclass(frozen=True)
class Tables:
    """The testbeds by what their throttlers hold, and what the full one took."""

    testbeds: dict[str, Testbed]
    took: dict[str, float]


def two_tables(subflows: int, held: float) -> Ground[Tables]:
    """Two pairs of nodes, each with its throttler, of which one holds so many ``subflows``."""

    @contextmanager
    def stands(name: str, _seed: int, _tolerance: float) -> Iterator[Standing[Tables]]:
        with ExitStack() as stack:
            single, _ = _throttled(stack, f"{name}2", 1, held)
            full, took = _throttled(stack, name, subflows, held)
            yield Standing(Tables({_FULL: full, _SINGLE: single}, took))

    return Ground({**pair.DESCRIBED, "subflows": subflows}, stands)


class ThrottlerScale(Experiment):
    """So many ``subflows`` are held, and then the throttler is asked for ``held`` seconds; each download takes so many
    ``seconds``.
    """

    claim = "What do 100,000 held subflows cost: memory, time to install, throughput?"
    quick = {"repeat": 3, "subflows": 5000, "held": 1.0, "seconds": 0.5}
    in_turn = True
    at = [{"table": table} for table in (_FULL, _SINGLE)]

    repeat: Repeat = 15
    subflows: Count = 100_000
    held: Seconds = 10.0
    seconds: Seconds = 1.5

    def blueprint(self, _profile: Profile, _point: Point) -> Ground[Tables]:
        return two_tables(self.subflows, self.held)

    def measure(self, built: Tables, point: Point, repetition: int) -> Reading:
        """``mbps`` of a download; and what the full table took, which is the same in all readings."""
        reached = {"mbps": _download(built.testbeds[point["table"]], self.seconds)}
        return Reading(point, repetition, reached | (built.took if point["table"] == _FULL else {}))

    def metrics(self, readings: Readings) -> list[Metric]:
        full, single = readings.at(table=_FULL), readings.at(table=_SINGLE)
        return [
            *(Metric(name, readings.at(table=name).values("mbps"), "Mbit/s") for name in (_FULL, _SINGLE)),
            *metrics_of(full, _TOOK),
            ratio("full_table_vs_empty", full.repeated("mbps"), single.repeated("mbps")),
        ]


def _throttled(stack: ExitStack, name: str, subflows: int, held: float) -> tuple[Testbed, dict[str, float]]:
    """A pair whose throttler holds so many, for so many seconds before anything else, and what that took."""
    testbed = stack.enter_context(pair.standing_pair(name)).built
    # Nobody is to answer or forward what is played: no socket owns its addresses.
    testbed.gateway.sysctl(net__ipv4__ip_forward=0)
    # Each frame is looked up on its own, not some forty at once (ip-link(8), gso_max_segs).
    testbed.gateway.ip("link", "set", "dev", PATHS[0], "gso_max_segs", "1")
    throttler = stack.enter_context(pair.throttling(testbed, RULE, "sniffer"))
    serve = [*_on(0), *native.load("origin", "--listen", _ORIGIN, "--mptcp")]
    stack.enter_context(testbed.gateway.start("serve", serve).wait_until_ready())
    with _asking(testbed) as answers:
        took = play(testbed, subflows, _BY_SESSION, _BY_CLIENT)
        time.sleep(held)
    dropped = sum(counts.dropped for counts in throttler_status(testbed).capture.values())
    return testbed, took | {
        "longest_answer_ms": 1000 * max(answers),
        "rss_mb": resident(throttler.popen.pid) / 1e6,
        "classes": float(_classes(testbed)),
        "capture_dropped": float(dropped),
    }


@contextmanager
def _asking(testbed: Testbed) -> Iterator[list[float]]:
    """How long answers at the throttler's control socket take, in seconds: as long as the turn that they wait for."""
    answers: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with testbed.gateway.entered():
            while not over.wait(_ASKED_EACH):
                begun = time.monotonic()
                try:
                    THROTTLER.ask("none")
                except CommandError as refusal:
                    # It has no such command, and says so at once.
                    if refusal.code == Exit.USAGE:
                        answers.append(time.monotonic() - begun)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield answers
    finally:
        over.set()
        asking.join()


def play(testbed: Testbed, subflows: int, by_session: int, by_client: int) -> dict[str, float]:
    """How many ``subflows`` are held, after ``install_s``; raises CommandError (exit 1) unless each got its element."""
    counts = map(str, (subflows, by_session, by_client))
    replay = python("experiments.probes.replay", PATHS[0], testbed.client.namespace, *counts)
    told = testbed.gateway.told(*replay)
    if told["subflows"] != subflows:
        dropped = throttler_status(testbed).capture
        raise CommandError(
            Exit.WRONG_RESULT, f"{told['subflows']} of {subflows} subflows were held in time (capture: {dropped})"
        )
    return {name: float(told[name]) for name in ("subflows", "install_s")}


def _classes(testbed: Testbed) -> int:
    """HTB classes on all interfaces of the gateway."""
    devices = [entry["ifname"] for entry in testbed.gateway.told("ip", "-json", "link", "show")]
    shown = (testbed.gateway.run("tc", "-s", "class", "show", "dev", device) for device in devices)
    return sum(line.startswith("class htb") for text in shown for line in text.splitlines())


def _on(processor: int) -> tuple[str, ...]:
    """A prefix that keeps a command on one processor: where the scheduler puts it decides a fifth of the throughput."""
    return ("taskset", "--cpu-list", str(sorted(os.sched_getaffinity(0))[processor]))


def _download(testbed: Testbed, seconds: float) -> float:
    flow = native.load("flow", "--to", _ORIGIN, "--seconds", str(seconds))
    return float(testbed.client.told(*_on(-1), *flow)["bits_per_second"]) / 1e6

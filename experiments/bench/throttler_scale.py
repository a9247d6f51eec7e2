"""What do 100,000 throttled subflows cost? Memory, time, and the throughput of those who are not throttled.

Two pairs of nodes stand side by side, each with a throttler: one holds so many subflows, whose handshakes were played
on its wire, the other a single one. A plain TCP download runs through the shaped interface of either in turn.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from experiments.bench import pair
from experiments.bench.result import Result, Series
from experiments.testbed.appliance import throttler_status
from experiments.testbed.build import Testbed
from experiments.testbed.cables import PATHS
from experiments.testbed.node import Process
from tributary.settings.failure import Exit, Failure

_PORT = 5001
_BY_SESSION, _BY_CLIENT = 4, 100
RULES = f"""
[[rules]]
name = "all"
min_subflows = 1
path = "{PATHS[0]}"
rate = "5mbit"
scope = "client"
"""
_BULK = (sys.executable, "-m", "experiments.probes.bulk")


@dataclass(frozen=True)
class Extent:
    """How many subflows, and how often, for how many seconds each, the throughput is measured."""

    subflows: int
    repetitions: int
    seconds: float


_FULL, _QUICK = Extent(100_000, 15, 1.5), Extent(5_000, 5, 0.5)


@dataclass(frozen=True)
class Contender:
    """A pair of nodes with its throttler, and how many subflows that holds after how long."""

    testbed: Testbed
    throttler: Process
    subflows: int
    install_s: float


def throttler_scale(quick: bool, say: Callable[[str], None]) -> Result:
    """100,000 subflows and fifteen downloads of 1.5 seconds each; 5,000 and five of half a second if ``quick``."""
    extent = _QUICK if quick else _FULL
    with ExitStack() as stack:
        say("holding one subflow")
        single = _standing(stack, f"{pair.NAME}2", 1)
        say(f"holding {extent.subflows:,} subflows")
        full = _standing(stack, pair.NAME, extent.subflows)
        say(f"{full.subflows:,} after {full.install_s:.1f} s")
        values = _weigh(full)
        contenders = {"full table": full, "one element": single}
        reached = _throughputs(contenders, extent, say)
    series = {name: Series(name, "Mbit/s", tuple(numbers)) for name, numbers in reached.items()}
    return Result(
        series=tuple(series.values()),
        ratios={"full_table_vs_empty": _ratio(reached["full table"], reached["one element"])},
        values=values,
    )


def _ratio(ours: list[float], peers: list[float]) -> float:
    """The median of the ratios of neighbours in time: what else the machine does then disturbs both."""
    return median(own / peer for own, peer in zip(ours, peers, strict=True))


def _standing(stack: ExitStack, name: str, subflows: int) -> Contender:
    testbed = stack.enter_context(pair.pair(name))
    # Nobody is to answer or forward what is played: no socket owns its addresses.
    testbed.gateway.sysctl(net__ipv4__ip_forward=0)
    # Each frame is looked up on its own, not some forty at once (ip-link(8), gso_max_segs).
    testbed.gateway.ip("link", "set", "dev", PATHS[0], "gso_max_segs", "1")
    throttler = stack.enter_context(pair.throttling(testbed, RULES, "sniffer"))
    serve = [*_on(0), *_BULK, "serve", str(pair.LISTENER), str(_PORT)]
    stack.enter_context(testbed.gateway.start("serve", serve).wait_until_ready())
    held, seconds = _play(testbed, subflows)
    return Contender(testbed, throttler, held, seconds)


def _play(testbed: Testbed, subflows: int) -> tuple[int, float]:
    """Raises Failure (exit 1) unless each of ``subflows`` got its element."""
    printed = testbed.gateway.run(
        *(sys.executable, "-m", "experiments.probes.replay", PATHS[0], testbed.client.namespace),
        *("--subflows", str(subflows), "--by-session", str(_BY_SESSION), "--by-client", str(_BY_CLIENT)),
    )
    told = json.loads(printed)
    if told["subflows"] != subflows:
        dropped = throttler_status(testbed).capture
        raise Failure(
            Exit.WRONG_RESULT, f"{told['subflows']} of {subflows} subflows were held in time (capture: {dropped})"
        )
    return told["subflows"], told["install_s"]


def _weigh(full: Contender) -> dict[str, float]:
    return {
        "rss_mb": _resident(full.throttler.popen.pid) / 1e6,
        "install_s": full.install_s,
        "subflows": full.subflows,
        "classes": _classes(full.testbed),
        "capture_dropped": sum(counts.dropped for counts in throttler_status(full.testbed).capture.values()),
    }


def _resident(pid: int) -> int:
    """Bytes of the process that are in memory (proc(5), VmRSS)."""
    lines = Path("/proc", str(pid), "status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _classes(testbed: Testbed) -> int:
    """HTB classes on all interfaces of the gateway."""
    devices = [entry["ifname"] for entry in json.loads(testbed.gateway.run("ip", "-json", "link", "show"))]
    shown = (testbed.gateway.run("tc", "-s", "class", "show", "dev", device) for device in devices)
    return sum(line.startswith("class htb") for text in shown for line in text.splitlines())


def _throughputs(
    contenders: dict[str, Contender], extent: Extent, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Mbit/s of each contender, in turn, and each time the other one first."""
    reached: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for repetition in range(extent.repetitions):
        for name in order:
            reached[name].append(_download(contenders[name].testbed, extent.seconds))
            say(f"repetition {repetition + 1}: {name}: {reached[name][-1]:.0f} Mbit/s")
        order.reverse()
    return reached


def _on(processor: int) -> tuple[str, ...]:
    """A prefix that keeps a command on one processor: where the scheduler puts it decides a fifth of the throughput."""
    return ("taskset", "--cpu-list", str(sorted(os.sched_getaffinity(0))[processor]))


def _download(testbed: Testbed, seconds: float) -> float:
    where = (str(pair.LISTENER), str(_PORT), "download", str(seconds))
    printed = testbed.client.run(*_on(-1), *_BULK, "run", *where)
    return float(json.loads(printed)["bits_per_second"]) / 1e6

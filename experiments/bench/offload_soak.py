"""Transfers over a link that loses and reorders packets, until their relay has offloaded 10,000 of them half-way.

    client ==200 Mbit/s, 10 ms, 1 % lost, packets overtake each other== relay ---- server

The relay is ``offload-relay``, which does nothing else, and then the converter, by CONNECT. Downloads and uploads in
turn, 100 at a time; every byte is checked. Whatever the moment at which a connection is offloaded, with segments lost,
late or sent again, the ends must not notice. It is not offloaded where a transfer is over before its slow start is.

With ``rest``, 100 more rest for so long in their middle, after they were offloaded: an upload sends nothing, a download
reads nothing, and its window closes. Kernel timers go off meanwhile. ``rest`` stays below the time without a segment
that ends an offloaded connection: 300 s at the relay, ``timeouts.idle``, 600 s, at the converter.
"""

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from statistics import median
from typing import Any

from pydantic import Field

from experiments.scenarios.cabled import linked
from experiments.study.experiment import Count, Experiment, Repeat
from experiments.study.metrics import Metric, metrics_of
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed import converter, native
from experiments.testbed.build import Testbed
from experiments.testbed.cables import ORIGIN, offload_relay
from experiments.testbed.node import Process, wait_until
from experiments.testbed.topology import Profile, Topology
from tributary.settings.errors import CommandError, Exit
from tributary.settings.files import check

RELAY, CONVERTER = "offload-relay", "converter"
_METRICS = "127.0.0.1:9465"
_LINK = {"rate": "200mbit", "delay": "10ms", "jitter": "2ms", "loss": "1%", "queue": 500}
_LOSSY = check({"links": {"lossy": _LINK}}, Profile, "the lossy link")
_DEVICES = ("lossy", "core")
_AT_ONCE = 100
_BYTES, _AFTER = 500_000, 50_000
"""Of each transfer, and how many of them are relayed before the connection is offloaded."""
_RESTING_BYTES = 2_000_000
"""Of each transfer that rests: when half of them have passed, most connections were offloaded."""
_SMALL_BUFFERS = "4096 65536 131072"
"""Of the relay's sockets then, in bytes: least, default and most (tcp(7), tcp_rmem)."""
_LAST = 60
"""Seconds within which the last connection is over, beside its rest."""
_PROBES = 2 * 120
"""Seconds besides for one that rested: when the update of its window is lost, its sender's next probe is up to
TCP_RTO_MAX away (RFC 9293 section 3.8.6.1; include/net/tcp.h), and may get lost as well."""
_SILENCE = 300
"""Seconds after which the relay takes an offloaded connection for one that is over."""
_OF_BOTH = ("transfers", "offloaded", "offloaded_percent", "rested", "offloaded_at_rest")
_COUNTED = {RELAY: (*_OF_BOTH, "translated_percent", "refused", "paused_ms"), CONVERTER: _OF_BOTH}
_WAYS = ("--verify", "--upload")
_NAMES = {RELAY: "", CONVERTER: "converter_"}
"""What names of values have in front."""


class OffloadSoak(Experiment):
    """``offloaded``: goes on until so many transfers were offloaded, or four times as many are over. ``rest``: seconds
    that further ones rest; 0: there are none of these.
    """

    claim = "Ten thousand transfers are offloaded half-way, over a link that loses: is every byte right?"
    quick = {"offloaded": 200, "rest": 5}
    at = [{"by": by} for by in _COUNTED]
    ground = linked(_LOSSY)

    repeat: Repeat = 1
    offloaded: Count = 10_000
    rest: float = Field(default=0, ge=0, lt=_SILENCE, description=f"seconds, at least 0 and below {_SILENCE}")

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Raises CommandError (exit 1) if a byte was wrong."""
        of = {RELAY: self._by_relay, CONVERTER: self._by_converter}[point["by"]]
        return Reading(point, repetition, of(testbed))

    def _by_relay(self, testbed: Testbed) -> dict[str, float]:
        at = f"{Topology.PROXY4}:7000"
        with offload_relay(testbed.gateway, at, ORIGIN, _DEVICES, _AFTER) as relay:
            counted = self._transfer(testbed, ("--to", at), lambda: relay.output().count('"paused"'))
            return counted | told(_of_all(relay, counted["transfers"]))

    def _by_converter(self, testbed: Testbed) -> dict[str, float]:
        """By a converter with ``offload``, which counts what it has offloaded."""
        at = f"{Topology.PROXY4}:3128"
        listener = {"kind": "http", "address": at, "mptcp": False, "offload": True}
        tables: dict[str, dict[str, object]] = {"metrics": {"address": _METRICS}}
        tables["offload"] = {"devices": _DEVICES, "after": f"{_AFTER}B"}
        text = converter.settings(testbed.gateway, "converter", Topology.CLIENT_NETWORKS, listener, **tables)
        with converter.start(testbed.gateway, "converter", text):
            route = ("--to", ORIGIN, "--via-connect", at)
            counted = self._transfer(testbed, route, lambda: _offloaded_by_converter(testbed))
            left = _offloaded_by_converter(testbed)
            return counted | {"offloaded": float(left), "offloaded_percent": 100 * left / counted["transfers"]}

    def metrics(self, readings: Readings) -> list[Metric]:
        return [
            metric for by, names in _COUNTED.items() for metric in metrics_of(readings.at(by=by), names, _NAMES[by])
        ]

    def _transfer(self, testbed: Testbed, route: Sequence[str], offloaded: Callable[[], int]) -> dict[str, float]:
        """Downloads and uploads in turn until so many were offloaded, or four times as many are over; then those that
        rest.

        Gives how many ``transfers`` there were, how many of them ``rested``, and of these ``offloaded_at_rest``: before
        the first one went on. Raises CommandError (exit 1) for any wrong byte and any connection that breaks.
        """
        transfers = 0
        while transfers < 4 * self.offloaded and offloaded() < self.offloaded:
            how = _WAYS[transfers // _AT_ONCE % len(_WAYS)]
            with _start(testbed, route, how, _AT_ONCE, _BYTES) as process:
                _finish(process)
            transfers += _AT_ONCE
        if not self.rest:
            return {"transfers": float(transfers), "rested": 0.0, "offloaded_at_rest": 0.0}
        # With larger ones it takes in a whole download before the client rests; buffered bytes prevent offloading.
        testbed.gateway.sysctl(net__ipv4__tcp_rmem=_SMALL_BUFFERS, net__ipv4__tcp_wmem=_SMALL_BUFFERS)
        before, first = offloaded(), time.monotonic() + self.rest
        with ExitStack() as stack:
            each = _AT_ONCE // len(_WAYS)
            both = [stack.enter_context(_start(testbed, route, how, each, _RESTING_BYTES, self.rest)) for how in _WAYS]
            with suppress(subprocess.TimeoutExpired):
                both[0].popen.wait(first - time.monotonic())
            offloaded_at_rest = offloaded() - before
            for process in both:
                _finish(process)
        return {
            "transfers": float(transfers + _AT_ONCE),
            "rested": float(_AT_ONCE),
            "offloaded_at_rest": float(offloaded_at_rest),
        }


def _offloaded_by_converter(testbed: Testbed) -> int:
    metrics = testbed.gateway.run("curl", "--silent", "--fail", f"http://{_METRICS}/metrics")
    found = re.search(r"^tributary_converter_offloaded_total (\d+)$", metrics, re.MULTILINE)
    return int(found[1]) if found else 0


def _start(testbed: Testbed, route: Sequence[str], how: str, connections: int, size: int, rest: float = 0) -> Process:
    """Transfers at once, which are over in time or end."""
    what = ("--connections", str(connections), "--bytes", str(size), how, "--rest", str(rest))
    longest = _LAST + rest + (_PROBES if rest else 0)
    command = ("timeout", str(longest), *native.load("bulk", *route, *what))
    return testbed.client.start(f"bulk{how}", command)


def _finish(process: Process) -> None:
    """Wait for transfers; raises CommandError (exit 1) if a byte was wrong, a connection broke or was not over in
    time.
    """
    if code := process.popen.wait():
        raise CommandError(Exit.WRONG_RESULT, f"transfers ended with exit code {code}: {process.output().strip()}")


def _of_all(relay: Process, transfers: float) -> list[dict[str, Any]]:
    """What the relay has told when all are over; raises CommandError (exit 1) if they are not in time."""

    def are_over() -> bool:
        return sum("relayed" in line for line in relay.reports()) == transfers

    try:
        wait_until(are_over, _LAST, f"some of {transfers:g} connections are not over", Exit.WRONG_RESULT)
    except CommandError as failure:
        raise CommandError(failure.code, f"{failure}: {relay.reports()[-3:]}") from failure
    return relay.reports()


def told(lines: list[dict[str, Any]]) -> dict[str, float]:
    """What the relay's lines come to. Pure."""
    ended = [line for line in lines if "relayed" in line]
    left = [line for line in ended if "translated" in line]
    translated, relayed = (sum(line[what] for line in left) for what in ("translated", "relayed"))
    return {
        "transfers": float(len(ended)),
        "offloaded": float(len(left)),
        "offloaded_percent": 100 * len(left) / len(ended),
        "translated_percent": 100 * translated / (translated + relayed) if left else 0.0,
        "refused": float(sum(line["refused"] for line in left)),
        "paused_ms": median([line["paused"] for line in lines if "paused" in line] or [0.0]),
    }

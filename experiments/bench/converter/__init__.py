"""The native converter beside what else there is: speed, delay, start and memory, on the same two processors.

    client --- gateway --- server      plain cables; the contenders listen at the gateway, all at once

Each figure is of MPTCP clients. The contenders are measured in turn, and the next repetition has them the other way
round. What each takes before there is work is measured while it is alone on the machine.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated

from pydantic import Field

from experiments.bench import parts
from experiments.bench.converter.contenders import CONTENDERS, WITHOUT, Contender, Route
from experiments.bench.converter.counts import KINDS as COUNTED
from experiments.bench.converter.counts import TOOLS, counts
from experiments.bench.converter.footprint import DELAYS, conversion_us, holding, idle, most_held, start_milliseconds
from experiments.scenarios.cabled import cables_with
from experiments.study.blueprint import Ground
from experiments.study.experiment import Count, Counts, Experiment, Repeat, Seconds, some_of
from experiments.study.metrics import RATIO, Metric, ratio
from experiments.study.readings import Point, Reading, Readings, name_of
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENT_SIDE, SERVER_SIDE
from experiments.testbed.node import Node
from experiments.testbed.topology import Topology
from tributary.settings.errors import CommandError
from tributary.settings.units import Size

_WRITE = 'echo "$1" > "/sys/class/net/$0/queues/rx-0/rps_cpus"'
_OFF = "0"
_GROUP = 32
"""Processors that one comma-separated number of a mask stands for."""


@contextmanager
def steered(testbed: Testbed, processors: Sequence[int]) -> Iterator[None]:
    """For the length of the block the first of ``processors`` takes what comes to the client, the last one the rest, by
    receive packet steering (Documentation/networking/scaling.rst, RPS): for uploads and all that goes both ways.

    A veth interface hands a packet over on the sender's processor. A gateway's recvmsg() then often holds the MPTCP
    socket while packets come in: TCP acknowledges them, MPTCP's own acknowledgement (DATA_ACK, RFC 8684 section 3.3.1)
    has to wait, and when the sender has used its whole window by then, nobody sends that acknowledgement. The sender
    waits for its MPTCP timer, 200 ms each time; ``MPTcpExtMPTCPRetrans`` counts it there. That is the kernel's fault
    (seen with Linux 6.18), at round trips far below a millisecond alone: without steering every proxy's uploads read
    100 to 10,000 Mbit/s, by chance, and say nothing of the proxy.
    """
    client, others = mask(processors[0]), mask(processors[-1])
    try:
        _steer(testbed.client, CLIENT_SIDE, client)
        for node, device in _other_ends(testbed):
            _steer(node, device, others)
        yield
    finally:
        for node, device in ((testbed.client, CLIENT_SIDE), *_other_ends(testbed)):
            _steer(node, device, _OFF)


def mask(processor: int) -> str:
    """The one processor as the kernel reads it: hexadecimal, a comma before each 32 bits (bitmap_parse())."""
    group, bit = divmod(processor, _GROUP)
    return ",".join([f"{1 << bit:x}", *["0" * (_GROUP // 4)] * group])


def _other_ends(testbed: Testbed) -> tuple[tuple[Node, str], ...]:
    gateway, server = testbed.gateway, testbed.server
    return (gateway, CLIENT_SIDE), (gateway, SERVER_SIDE), (server, SERVER_SIDE)


def _steer(node: Node, device: str, processors: str) -> None:
    node.run("sh", "-c", _WRITE, device, processors)


DOWNLOADS = (parts.BULK, parts.BULK_MANY)
"""Of which next to nothing goes from the client to the origin."""
BYTES = (*DOWNLOADS, parts.UPLOAD)
"""What is counted in bytes."""
_COMMANDS = {parts.CONNECTIONS: "connect", parts.REQUESTS: "requests"}
KINDS = (*BYTES, *_COMMANDS)
_PEERS = {
    parts.BULK: ("squid", "haproxy", "varnish", "relay", "direct"),
    parts.UPLOAD: ("haproxy", "varnish", "relay", "direct"),
    parts.CONNECTIONS: ("nginx", "haproxy", parts.HAPROXY_HTTP, "squid"),
    parts.REQUESTS: ("squid", "nginx", "haproxy", parts.HAPROXY_HTTP, "varnish"),
}
_FORWARDING = ("haproxy", "nginx")
_BEST = ("haproxy", "varnish")
"""Peers whose bulk transfers stand still now and then: ours is held against the best that they can do as well."""
_CLIENTS = "64"
_PAUSE = 0.2
"""Seconds in which what the last measurement left comes to its end."""
_TRIES = 3
"""Squid 5.7 breaks some uploads off (by MPTCP, at these rates) that it takes when they are tried again."""


def value_of(measurement: str) -> str:
    """The name of what is measured."""
    return "mbps" if measurement in BYTES else "per_second"


def load_of(point: Point, size: int, seconds: float) -> tuple[str, ...]:
    """Arguments of tributary-load: ``size`` bytes over all connections together, or so many ``seconds``."""
    measurement = point["measure"]
    if measurement not in BYTES:
        return (_COMMANDS[measurement], "--clients", _CLIENTS, "--seconds", str(seconds))
    connections = int(point.get("connections", "1"))
    each = ("--connections", str(connections), "--bytes", str(size // connections))
    return ("bulk", *each, *(["--upload"] if measurement == parts.UPLOAD else []))


def throughput(testbed: Testbed, point: Point, load: tuple[str, ...], route: Route) -> dict[str, float]:
    """``mbps`` or ``per_second``; nothing of a peer that failed each time. Raises CommandError if ours failed once."""
    time.sleep(_PAUSE)
    for _ in range(_TRIES):
        try:
            told = cables.load(testbed, *load, *route, "--mptcp")
        except CommandError as failure:
            if point["by"] == parts.NATIVE:
                raise
            print(f"{name_of(point)}: failed: {failure}", file=sys.stderr)
            continue
        if told.get("errors"):
            print(f"{name_of(point)}: {told['errors']} errors: {told['first_error']}", file=sys.stderr)
        value = value_of(point["measure"])
        return {value: told["bits_per_second"] / 1e6 if value == "mbps" else float(told[value])}
    return {}


def ratios_of(readings: Readings) -> Iterator[Metric]:
    """Ours to each peer that took part, larger is better, and ``upload_spread``.

    ``bulk_vs_squid`` and the like: the medians of every repetition's own ratio. ``bulk_vs_haproxy_best``: our median to
    the peer's best run of all. ``tunnels_vs_haproxy``, ``tunnels_vs_nginx``: new connections by CONNECT to those that
    they forward. ``upload_spread``: the slowest of our uploads to the fastest, 1 if all were alike.
    """
    for measurement, peers in _PEERS.items():
        these, value = readings.at(measure=measurement), value_of(measurement)
        ours = these.at(by=parts.NATIVE).repeated(value)
        for peer in peers:
            yield ratio(f"{measurement}_vs_{peer}", ours, these.at(by=peer).repeated(value))
    these = readings.at(measure=parts.CONNECTIONS)
    for peer in _FORWARDING:
        yield ratio(f"tunnels_vs_{peer}", *(these.at(by=by).repeated("per_second") for by in (parts.TUNNEL, peer)))
    if bulk := readings.at(measure=parts.BULK, by=parts.NATIVE).values("mbps"):
        for peer in _BEST:
            runs = readings.at(measure=parts.BULK, by=peer).values("mbps")
            yield Metric(f"{parts.BULK}_vs_{peer}_best", [median(bulk) / max(runs)] if runs else [], RATIO)
    if uploads := readings.at(measure=parts.UPLOAD, by=parts.NATIVE).values("mbps"):
        yield Metric(f"{parts.UPLOAD}_spread", [min(uploads) / max(uploads)], RATIO)


_PROCESSORS = 2
_COUNTED = (parts.NATIVE, parts.TUNNEL, "haproxy", parts.HAPROXY_HTTP, "nginx")
"""Of whom instructions and system calls are counted."""
_OF_REQUESTS = (parts.TUNNEL, parts.HAPROXY_HTTP)
"""Who takes part in connections and requests alone: what differs from the same program otherwise is there."""
_COSTS = ("start_ms", "idle_rss_mb", "per_idle_connection_kb", "held_connections")
_UNITS = {"mbps": "Mbit/s", "per_second": "per second"}


@dataclass(frozen=True)
class Contest:
    """The nodes with those who listen, all on the same ``processors``; readings of peers that were ``given_up``."""

    testbed: Testbed
    processors: Sequence[int]
    given_up: set[str] = field(default_factory=set)


def contending(listening: Sequence[str]) -> Ground[Contest]:
    """Those of these names listen that are here."""
    processors = sorted(os.sched_getaffinity(0))[:_PROCESSORS]

    @contextmanager
    def contest(testbed: Testbed) -> Iterator[Contest]:
        with ExitStack() as stack:
            for contender in present([CONTENDERS[each] for each in listening]):
                stack.enter_context(contender.running(testbed))
            yield Contest(testbed, processors)

    return cables_with(contest, processors, listening=list(listening))


def present(all_of_them: Sequence[Contender]) -> Iterator[Contender]:
    """Those whose programs are here; who is not is told."""
    for each in all_of_them:
        if each.missing:
            reason = f"{each.missing} is not here (scripts/setup --dev installs it)"
            print(f"{each.name} is left out: {reason}", file=sys.stderr)
        else:
            yield each


class Converter(Experiment):
    """Some measurements ``only``, beside some ``peers``.

    ``size``: of all transfers of a bulk measurement together, also over ``many`` connections. ``seconds``,
    ``delay_seconds``, ``count_seconds``: of each measurement that takes a time. ``starts``: of each contender in a
    repetition. ``idle``: connections that every contender holds, for what one costs; ``held``: those that ours holds at
    once.
    """

    claim = "How fast is the native converter, and what does it take, beside Squid, HAProxy, Varnish, nginx, a relay?"
    quick = {
        "repeat": 2,
        "size": "300MB",
        "many": 8,
        "seconds": 0.5,
        "delay_seconds": 0.5,
        "count_seconds": 0.5,
        "starts": 2,
        "idle": 500,
        "held": 2000,
    }
    in_turn = True

    repeat: Repeat = 5
    only: Annotated[tuple[str, ...], some_of(parts.MEASUREMENTS)] = parts.MEASUREMENTS
    peers: Annotated[tuple[str, ...], some_of(parts.PEERS)] = parts.PEERS
    size: Size = Field(default=Size(1_000_000_000), description="a size, such as '300MB'")
    many: Counts = (8, 64)
    seconds: Seconds = 3.0
    delay_seconds: Seconds = 1.0
    count_seconds: Seconds = 2.0
    starts: Count = 4
    idle: Count = 2000
    held: Count = 20_000

    def points(self, _topology: Topology) -> list[Point]:
        return [
            {**measurement, "by": by}
            for measurement in self._measurements()
            for by in (*self._asked, *([parts.DIRECT] if parts.DIRECT in self.peers else []))
            if _able(measurement["measure"], by)
        ]

    @property
    def _asked(self) -> tuple[str, ...]:
        return tuple(name for name in CONTENDERS if name in (parts.NATIVE, parts.TUNNEL) or name in self.peers)

    def blueprint(self, _profile: object, point: Point) -> Ground[Contest]:
        return contending(() if point["measure"] in (parts.COSTS, parts.COUNTS) else self._asked)

    def measure(self, built: Contest, point: Point, repetition: int) -> Reading:
        """Nothing of a peer that is not here, or that failed in all its tries at this point before."""
        contender, measurement, taken = CONTENDERS.get(point["by"]), point["measure"], dict[str, Sequence[float]]()
        if (contender and contender.missing) or name_of(point) in built.given_up:
            values = {}
        elif contender and measurement == parts.COSTS:
            taken["start_ms"] = start_milliseconds(built.testbed, contender, self.starts)
            values = {"start_ms": median(taken["start_ms"])} | self._memory(built.testbed, contender)
        elif contender and measurement == parts.COUNTS:
            values = _counts(built, contender, self.count_seconds, name_of(point))
        elif contender and measurement == parts.DELAY:
            values = conversion_us(built.testbed, contender, self.delay_seconds)
        else:
            values = self._reached(built, point)
        return Reading(point, repetition, values, samples=taken)

    def metrics(self, readings: Readings) -> list[Metric]:
        """Ours under the bare names of values, the others' with their own in front; throughput by who reached it."""
        return [
            *_throughput(readings),
            *(
                Metric(f"{'' if by == parts.NATIVE else f'{by}_'}{value}", readings.at(by=by).samples(value))
                for by in CONTENDERS
                for value in (*_COSTS, *COUNTED, *DELAYS)
            ),
            *ratios_of(readings),
        ]

    def _measurements(self) -> Iterator[Point]:
        for measurement in (each for each in parts.MEASUREMENTS if each in self.only):
            if measurement == parts.BULK_MANY:
                yield from ({"measure": measurement, "connections": str(each)} for each in self.many)
            else:
                yield {"measure": measurement}

    def _memory(self, testbed: Testbed, contender: Contender) -> dict[str, float]:
        megabytes, kilobytes = idle(testbed, contender, self.idle)
        values = {"idle_rss_mb": megabytes, "per_idle_connection_kb": kilobytes}
        if contender.name == parts.NATIVE:
            held = most_held(self.held)
            with contender.running(testbed), holding(testbed, contender.tunnel, held):
                values["held_connections"] = float(held)
        return values

    def _reached(self, built: Contest, point: Point) -> dict[str, float]:
        load, contender = load_of(point, self.size.amount, self.seconds), CONTENDERS.get(point["by"])
        steering = steered(built.testbed, built.processors)
        with nullcontext() if point["measure"] in DOWNLOADS else steering:
            reached = throughput(built.testbed, point, load, contender.route if contender else WITHOUT)
        if not reached:
            built.given_up.add(name_of(point))
        return reached


def _able(measurement: str, by: str) -> bool:
    if by == parts.DIRECT:
        return measurement in KINDS
    if measurement == parts.COUNTS:
        return by in _COUNTED
    if by in _OF_REQUESTS:
        return measurement in (parts.CONNECTIONS, parts.REQUESTS)
    return not (CONTENDERS[by].stalls and measurement in BYTES)


def _counts(built: Contest, contender: Contender, seconds: float, name: str) -> dict[str, float]:
    if absent := next((tool for tool in TOOLS if shutil.which(tool) is None), None):
        print(f"{name}: left out: {absent} is not here (apt-get install valgrind strace)", file=sys.stderr)
        built.given_up.add(name)
        return {}
    return counts(built.testbed, contender, seconds)


def _throughput(readings: Readings) -> Iterator[Metric]:
    for title in dict.fromkeys(_title(each.point) for each in readings if each.point["measure"] in KINDS):
        these = Readings(each for each in readings if _title(each.point) == title)
        value = value_of(next(iter(these)).point["measure"])
        for by in (*CONTENDERS, parts.DIRECT):
            yield Metric(f"{title}, {by}", these.at(by=by).values(value), _UNITS[value])


def _title(point: Point) -> str:
    return f"{parts.BULK} {point['connections']} connections" if "connections" in point else point["measure"]

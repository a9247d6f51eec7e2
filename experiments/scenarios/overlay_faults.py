"""What an overlay does while something that it needs is away, dies, hangs or changes.

    client -- ingress ==20== best ==22== egress -- server     round trips in ms; best and second are 40 apart,
                      ==30== second ==28==                    ingress and egress 70

Two downloads stand: one by the best chain, through the node `best`, and one to another port of the server, whose egress
is the node `second`. Meanwhile a new connection asks for 10 kB every 100 ms. Then, for a while:

    etcd-away         etcd is dead                      node-killed   converter and agent of `best` are dead
    controller-away   the only controller is dead       node-hung     they are stopped (SIGSTOP), their kernel goes on
    agents-silent     half the agents are stopped       link-grown    ingress and `best` are 50 ms further apart

Derived: which download was cut, and the longest time in which nothing came; how many of the new connections failed, and
how long the slowest took; how soon the ingress's routes begin with another chain, and how soon with the old one again
when all is over.

Expected: only what runs through the dead node is cut. The routes are a file, so that nothing changes without etcd or a
controller. A node that is killed or hung, or whose agent is silent, is out of the routes when its lease of two seconds
is over, which etcd looks at every half of a second. Until then new connections try its chain: a dead converter refuses
them at once, a hung one takes them and says nothing until the ingress' `gateway.timeout` of 3 s is over; the next chain
serves both. A link that has grown is out when the agents' window of measurements says so.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

from matplotlib.figure import Figure

from experiments.overlay.mesh import SERVER
from experiments.overlay.running import PROXY, Running, whole_overlay
from experiments.plots import tidy
from experiments.study.experiment import Experiment, Repeat, Seconds
from experiments.study.readings import Point, Reading, Readings, Verdict, worst
from experiments.testbed import native
from experiments.testbed.node import Process
from experiments.testbed.topology import Topology
from tributary.settings.errors import CommandError, Exit

_INGRESS, _BEST, _SECOND, _EGRESS = _NODES = ("ingress", "best", "second", "egress")
_NEAR, _GROWN = 20.0, 70.0
_ROUND_TRIPS = ((0, _NEAR, 30, 70), (_NEAR, 0, 40, 22), (30, 40, 0, 28), (70, 22, 28, 0))
_PORT, _PORT_BESIDE = 80, 81
_FAULTS: Mapping[str, Callable[[Running], AbstractContextManager[None]]] = {
    "etcd-away": lambda overlay: overlay.killed("etcd"),
    "controller-away": lambda overlay: overlay.killed("controller"),
    "agents-silent": lambda overlay: overlay.hung(f"{_BEST}.agent", f"{_SECOND}.agent"),
    "node-killed": lambda overlay: overlay.killed(f"{_BEST}.agent", f"{_BEST}.converter"),
    "node-hung": lambda overlay: overlay.hung(f"{_BEST}.agent", f"{_BEST}.converter"),
    "link-grown": lambda overlay: overlay.mesh.grown(_INGRESS, _BEST, before=_NEAR, during=_GROWN),
}
_STAYS, _DIES = ("etcd-away", "controller-away"), ("node-killed", "node-hung")
_OUT = {"node-killed": 3.0, "node-hung": 3.0, "agents-silent": 3.0, "link-grown": 10.0}
_BACK = 5.0
_SLOWEST = 4000.0  # ms: gateway.timeout, and the next chain
_PACE = "4000000"  # bit/s of each download
_SIZE, _EVERY = 10_000, "0.1"
_LOOK = 0.02  # seconds between looks at the routes
_LONGEST_END = 60.0  # seconds for an answer that is under way
_NONE = "none"


@dataclass
class Watch:
    """The first chain of the ingress's routes: whenever it changed, in seconds since ``begun`` (Unix time)."""

    overlay: Running
    begun: float = field(default_factory=time.time)
    chains: list[tuple[float, str]] = field(default_factory=list)

    def look(self, seconds: float) -> float:
        """Watch for so long; returns the moment at the end."""
        end = self.now + seconds
        while self.now < end:
            chain = first_chain(self.overlay)
            if not self.chains or self.chains[-1][1] != chain:
                self.chains.append((self.now, chain))
            time.sleep(_LOOK)
        return self.now

    @property
    def now(self) -> float:
        return time.time() - self.begun


def first_chain(overlay: Running) -> str:
    """The nodes between the ingress and the egress of the chain that a connection to the server tries first."""
    route = next(line for line in overlay.routes(_INGRESS) if " port " not in line)
    first = route.partition(" or ")[0]
    return " ".join(name for name in _NODES[1:-1] if f"{overlay.mesh.address(name)}:" in first) or _NONE


class OverlayFaults(Experiment):
    """Seconds before a fault, as long as it lasts, and after it. A fault is a yes or no: one repetition says it."""

    claim = "Nothing that stands is cut but what ran through a dead node."
    expected = "As claimed; no new connection fails, and a dead node is out of the routes within 3 s."
    over = "long-path.toml"
    quick = {"before": 1.0, "down": 8.0, "after": 5.0}
    in_turn = True
    at = [{"fault": fault} for fault in _FAULTS]
    ground = whole_overlay(_NODES, _ROUND_TRIPS, by_port={_PORT_BESIDE: _SECOND})

    repeat: Repeat = 1
    before: Seconds = 2.0
    down: Seconds = 60.0
    after: Seconds = 10.0

    @property
    def seconds(self) -> float:
        return self.before + self.down + self.after

    def measure(self, overlay: Running, point: Point, repetition: int) -> Reading:
        """Raises CommandError: exit 71 if the overlay is not whole after the fault before, 1 if a byte was wrong."""
        overlay.wait_until_complete()
        with ExitStack() as stack:
            flows = [stack.enter_context(self._flow(overlay, port)) for port in (_PORT, _PORT_BESIDE)]
            asking = stack.enter_context(self._asking(overlay))
            watch = Watch(overlay)
            watch.look(self.before)
            with _FAULTS[point["fault"]](overlay):
                begun = watch.now
                ended = watch.look(self.down)
            watch.look(self.after)
            through, beside = (_ended(flow) for flow in flows)
            answers = _ended(asking)
            if answers is None:
                raise CommandError(Exit.SYSTEM, f"the requests ended: {asking.output()}")
        values = {"begun_s": begun, "ended_s": ended, **of_flows(through, beside)}
        answered = [(at - watch.begun, ms) for at, ms in zip(answers["at"], answers["ms"], strict=True)]
        failed = [(each["at"] - watch.begun, 1000 * each["seconds"]) for each in answers["failed"]]
        values |= of_answers(answered, failed, begun) | of_chains(watch.chains, begun, ended, ended + self.after)
        series = {"answers": answered, "failures": failed}
        return Reading(point, repetition, values, series)

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        for fault in _FAULTS:
            yield from _verdicts(fault, readings.at(fault=fault))

    def draw(self, figure: Figure, _topology: Topology, readings: Readings) -> None:
        for axes, fault in zip(figure.subplots(2, 3, sharex=True, sharey=True).flat, _FAULTS, strict=True):
            reading = next(iter(readings.at(fault=fault)))
            values = reading.values
            for name, colour in (("answers", "#0072B2"), ("failures", "#D55E00")):
                moments = reading.series[name]
                axes.scatter([at for at, _ in moments], [ms for _, ms in moments], s=3, color=colour, label=name)
            axes.axvspan(values["begun_s"], values["ended_s"], color="black", alpha=0.12, linewidth=0)
            axes.set_yscale("log")
            axes.set_title(fault, fontsize=9)
            tidy(axes, "y")
        figure.supxlabel("seconds", fontsize=9)
        figure.supylabel("ms until a new connection has its 10 kB", fontsize=9)

    def _flow(self, overlay: Running, port: int) -> Process:
        how = ("--seconds", str(self.seconds), "--rate-limit", _PACE, "--verify")
        return _load(overlay, "flow", port, *how)

    def _asking(self, overlay: Running) -> Process:
        how = ("--path", f"/{_SIZE}", "--seconds", str(self.seconds), "--every", _EVERY, "--go-on")
        return _load(overlay, "poll", _PORT, *how)


def _load(overlay: Running, what: str, port: int, *how: str) -> Process:
    where = ("--to", f"{SERVER}:{port}", "--via-http-proxy", PROXY.removeprefix("http://"))
    return overlay.mesh.client.start(f"{what}-{port}", native.load(what, *where, *how))


def _ended(process: Process) -> Any:
    """What it says at its end, None if it failed; raises CommandError (exit 1) if a byte was wrong."""
    if code := process.popen.wait(_LONGEST_END):
        if code == Exit.WRONG_RESULT:
            raise CommandError(Exit.WRONG_RESULT, process.output())
        return None
    return json.loads(process.output())


def of_flows(through: Any, beside: Any) -> dict[str, float]:
    """Which of the two downloads were cut, and the longest pause of those that were not. Pure."""
    flows = {"through": through, "beside": beside}
    cut = {f"{name}_cut": float(flow is None) for name, flow in flows.items()}
    return cut | {f"{name}_pause_s": flow["longest_pause"] for name, flow in flows.items() if flow is not None}


def of_answers(
    answered: Sequence[tuple[float, float]], failed: Sequence[tuple[float, float]], begun: float
) -> dict[str, float]:
    """What the requests of one fault come to, each given by when it began and how many milliseconds it took. Pure.

    Those that failed count if they began after the fault; ``cut`` is one that was under way.
    """
    new = sum(at >= begun for at, _ in failed)
    slowest = max(ms for at, ms in (*answered, *failed) if at >= begun)
    return {"failed": float(new), "cut": float(len(failed) - new), "slowest_ms": slowest}


def of_chains(chains: Sequence[tuple[float, str]], begun: float, ended: float, last: float) -> dict[str, float]:
    """When the best chain was left and taken again, each since the fault's beginning or end; ``last`` if it never was.

    ``changes`` is how often the first chain was another one from the beginning on. Pure.
    """
    out = next((at for at, chain in chains if at >= begun and chain != _BEST), last) - begun
    back = 0.0 if chains[-1][1] == _BEST and chains[-1][0] < ended else last - ended
    back = next((at - ended for at, chain in chains if at >= ended and chain == _BEST), back)
    changes = sum(at >= begun for at, _ in chains)
    return {"out_s": out, "back_s": back, "changes": float(changes)}


def _verdicts(fault: str, readings: Readings) -> Iterator[Verdict]:
    def most(claim: str, name: str, bound: float, unit: str) -> Verdict:
        return worst(f"{claim} ({fault})", readings.values(name), bound, unit)

    yield most("the download beside is not cut", "beside_cut", 0, "downloads")
    if fault not in _DIES:
        yield most("the download by the best chain is not cut", "through_cut", 0, "downloads")
        yield most("no request under way is cut", "cut", 0, "requests")
    yield most("no new connection fails", "failed", 0, "connections")
    yield most("the slowest new connection has its bytes soon", "slowest_ms", _SLOWEST, "ms")
    if fault in _STAYS:
        yield most("the routes stay as they are", "changes", 0, "changes")
    else:
        yield most("new connections soon take another chain", "out_s", _OUT[fault], "s")
        yield most("the best chain is soon used again", "back_s", _BACK, "s after the end")

"""Over links drawn by lot, is an upload, or are eight downloads at once, slower by MPTCP than over the best link alone?

The links and sizes are those of never-below, of the same ``seed``. A third of the cases each is one download, one
upload, and eight downloads at once of an eighth of the size. In five of six something is wrong with the first link that
was drawn, and with legacy TCP over it alike:

    bursts    all that arrives in 20 ms is lost, each way, about once a second while it carries much
    trace     it carries what an LTE link did from moment to moment (profiles/traces/lte.trace), 12 Mbit/s on average
    outage    it is a black hole for 0.5, 3 or 10 s, in the midst of a transfer of more than 1 MB

Derived: throughput from the first connect to the last byte, as in never-below; what takes longer than ``longest`` is
broken off, and counts by what has arrived. Congestion controls are compared by --sweep congestion=reno,cubic,bbr.

Expected: as in never-below. An outage costs what was on its way, until retransmission timers have ended (failover).
"""

import json
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cache
from threading import Event

from experiments.scenarios.downloads import LEGACY
from experiments.scenarios.never_below import (
    APPLIANCE,
    KERNEL,
    LONG,
    NAMES,
    ROUTER,
    Case,
    Compared,
    NeverBelow,
    column,
    drawn_cases,
    ordered,
)
from experiments.study.readings import Point, Reading
from experiments.testbed.build import Testbed
from experiments.testbed.impairment import losing_bursts, lossy
from experiments.testbed.node import python
from experiments.testbed.server import random_file, start_origin
from experiments.testbed.topology import NATIVE_PORT, DirectionSettings, Link, LinkSettings
from experiments.testbed.trace import PROFILES, Trace
from tributary.settings.units import Size

_DOWNLOAD, _UPLOAD, _EIGHT = "download", "upload", "eight downloads"
_LOADS = (_DOWNLOAD, _UPLOAD, _EIGHT)
_NOTHING, _BURSTS, _TRACE = "nothing", "bursts", "trace"
_OUTAGES = {f"outage of {seconds:g} s": seconds for seconds in (0.5, 3.0, 10.0)}
_ANYTIME, _TROUBLES = (_NOTHING, _BURSTS, _TRACE), (_NOTHING, _BURSTS, _TRACE, *_OUTAGES)
_BURST = 20  # milliseconds
_AT_ONCE = 8
_ORIGIN_PORT = 8080


class NeverBelowLoads(NeverBelow):
    """How many ``cases`` are drawn, by which ``seed``; every transfer breaks off after ``longest`` seconds."""

    claim = "Nor are uploads, several downloads at once, and transfers beside a link that is in trouble."
    expected = "Most are as quick as over the best link; an outage costs what was on its way."

    settings: Compared = (KERNEL, APPLIANCE, ROUTER)

    def drawn(self) -> Sequence[Case]:
        return _drawn(self.cases, self.seed)

    def transfer(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """One of the case's; its links are in trouble meanwhile."""
        case = self.drawn()[int(point["case"])]
        command = [*_command(testbed, point, repetition), "--seconds", str(self.longest)]
        names = [name for name, link in ordered(case, point["settings"]).items() if link is case.links[NAMES[0]]]
        (troubled,) = (link for link in testbed.topology.links if link.name in names)
        with ExitStack() as stack:
            if point["load"] == _UPLOAD:
                stack.enter_context(start_origin(testbed.server, f"{testbed.topology.SERVER4}:{_ORIGIN_PORT}"))
            if point["trouble"] == _BURSTS:
                stack.enter_context(losing_bursts(testbed, troubled, _BURST))
            lines = stack.enter_context(closing(testbed.client.lines(*command)))
            # It begins now: to start it may take as long as a short outage lasts.
            next(lines)
            if seconds := _OUTAGES.get(point["trouble"]):
                midst = _midst(testbed, Size.parse(point["size"]))
                stack.enter_context(_black_hole(testbed, troubled, midst, seconds))
            told = json.loads("".join(lines))
        mbps = 8 * told["bytes"] / told["seconds"] / 1e6
        return Reading(point, repetition, {"seconds": told["seconds"], "mbps": mbps}, {})


@cache
def _drawn(count: int, seed: int) -> tuple[Case, ...]:
    """The cases of never-below with loads and troubles by lot: of each its part, whatever the links are."""
    chance = random.Random(f"never-below-loads {seed}")
    loads, troubles = column(count, chance), column(count, chance)
    drawn = zip(drawn_cases(count, seed), loads, troubles, strict=True)
    return tuple(_loaded(case, _LOADS[int(load * len(_LOADS))], trouble) for case, load, trouble in drawn)


def _loaded(case: Case, load: str, trouble: float) -> Case:
    possible = _TROUBLES if case.size in LONG else _ANYTIME
    what = possible[int(trouble * len(possible))]
    links = {**case.links, NAMES[0]: _traced(case.links[NAMES[0]])} if what == _TRACE else case.links
    return replace(case, links=links, load={"load": load, "trouble": what})


def _traced(link: LinkSettings) -> LinkSettings:
    """Both directions have the trace's mean as their rate; downwards it comes and goes."""
    trace = Trace.read(PROFILES / "traces/lte.trace")
    return link.model_copy(update={"rate": trace.mean, "down": DirectionSettings(trace=trace)})


def _command(testbed: Testbed, point: Point, repetition: int) -> list[str]:
    topology = testbed.topology
    (source,) = (str(link.client4) for link in topology.links if link.name == point["link"])
    size, server = Size.parse(point["size"]).amount, topology.SERVER4
    if point["load"] == _UPLOAD:
        what = [f"http://{server}:{_ORIGIN_PORT}/-0", "--upload", str(size)]
    else:
        count = _AT_ONCE if point["load"] == _EIGHT else 1
        file = random_file(size // count, seed=repetition)
        testbed.offer(file.size, file.seed)
        what = [f"http://{server}/{file.path.name}", "--connections", str(count)]
    by = [] if point["by"] == LEGACY else ["--mptcp", "--proxy", f"{topology.PROXY4}:{NATIVE_PORT}"]
    return [*python("experiments.probes.transfers", *what, "--source", source), *by]


def _midst(testbed: Testbed, size: Size) -> float:
    """Seconds: some round trips, and half of what the fastest link would need by its rate."""
    links = testbed.topology.links
    return 5 * min(link.rtt for link in links) + 4 * size.amount / max(link.down.rate.amount for link in links)


@contextmanager
def _black_hole(testbed: Testbed, link: Link, after: float, seconds: float) -> Iterator[None]:
    """``after`` so many seconds ``link`` is a black hole for ``seconds``, as far as the block lasts."""
    ended = Event()

    def course() -> None:
        if not ended.wait(after):
            with lossy(testbed, link):
                ended.wait(seconds)

    with ThreadPoolExecutor(1) as pool:
        outage = pool.submit(course)
        try:
            yield
        finally:
            ended.set()
            outage.result()

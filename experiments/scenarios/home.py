"""A home router and its gateway: what both legs between them give a device, over two links and three.

    device -- router ==dsl, lte(, sat)== internet (address translation) -- gateway
                                              \\-- server

`plain`: MPTCP's subflows go from the links' addresses to the gateway, which lets them in by these. `wireguard`: they go
through a tunnel over each link, and all else through one more. All programs are the real ones (experiments/home).

Of a device's download (`bonded`) `share_percent` is what it gets of the sum of what it would get by one way at a time,
measured just before by connections of the router's own: by each link (`plain`), or by each tunnel. `stripped` is the
same with a provider that takes MPTCP's option out of all segments of the second link. With `carrier` and `silence` the
first link ends, and the router is told of it, or is not; a call by UDP and a download are under way.

Expected: MPTCP's segments carry 1420 of TCP's 1448 bytes, in tunnels 1340 of 1368: 98 %; 95 % leave room for a shared
machine. A tunnel takes 80 of 1500 bytes. Without the option a plain leg has one link left; no provider sees what is in
a tunnel. With its carrier a link's end is known in 50 ms, and a call goes on by the next best tunnel, with its address;
without tunnels it goes on as well, but from the other link's address, as a stranger to whom it was with. Without a sign
the end is found by probes: each link is asked every ten seconds, and is out after three failures, of two seconds each:
so a call waits for up to 16 s. A download does not: MPTCP sends again by the other link what its timer says is lost.

`waiting` and `rates`: links whose queues hold 600 packets, 180 ms of the first link's rate, during a download and a
call. With `rates` the router lets 90 % of what a link carries pass (docs/link-quality.md), so that these queues stay
empty and a call waits in the router's own alone: 20 ms of packets where the kernel has neither CAKE nor FQ-CoDel,
less with them. Without, a call waits as long as the download keeps the queue filled: cubic takes three tenths off
what is on its way (RFC 9438 section 4.6) and grows again, so that more than half of the queue is filled most of the
time.

`revoked` is how long a call still passes after `tributary revoke`. `link` and `tunnel` are a connection of the router's
own to the gateway's converter by a plain cable that stands for a link, and by the tunnel over it, with nothing that
shapes: what one tunnel costs.

Processor seconds for each gigabyte are those of the programs at either end: wireguard-go(1), which is a process, and
not a kernel's WireGuard, is most of it. The links are as fast as two processors can carry with it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Annotated

from matplotlib.figure import Figure
from pydantic import Field

from experiments.home import events
from experiments.home.household import LEGS, PLAIN, WIREGUARD, Household, household
from experiments.home.traffic import WARM_UP, alone, calling, costing, downloading, one_way, per_gigabyte, watched
from experiments.plots import colours_of, paths
from experiments.study.blueprint import Ground
from experiments.study.experiment import Experiment, some_of
from experiments.study.metrics import Metric, metrics_of, ratio
from experiments.study.readings import Point, Reading, Readings, Verdict, at_least, at_most, worst
from experiments.testbed.topology import Profile, Topology

_BONDED, _STRIPPED, _WAITING, _RATES = "bonded", "stripped", "waiting", "rates"
_REVOKED, _LINK, _TUNNEL = "revoked", "link", "tunnel"
_UNSHAPED = {_LINK: PLAIN, _TUNNEL: WIREGUARD}
"""What is measured on plain cables, by the leg that has it."""
_MANY = ("2", "3")
_SHARE = 95.0
"""Percent."""
_QUEUE, _ALLOWED = 600, 0.9
"""Packets that links hold, and the share of what they carry that the router lets pass, where that is tried."""
_ADDED = 20.0
"""Milliseconds that an answer takes longer behind a download: as long as the router's own queue is."""
_CALL_GAPS = {events.CARRIER: 1.0, events.SILENCE: 17.0}
_DOWNLOAD_GAP = 5.0
"""Seconds, as those of calls."""
_BEST = "dsl"
"""The link that is cut, and that first subflows take."""


class Home(Experiment):
    """``seconds`` of each download; which ``legs`` are measured, over how many ``links``."""

    claim = "A home router bonds its links by tunnels too, whatever providers do to TCP, and calls outlive a link."
    expected = "95 % of the sum by either leg; a call waits for less than a second where the carrier goes."
    over = "home.toml"
    quick = {"repeat": 1, "seconds": 4.0, "legs": WIREGUARD, "links": "2"}

    seconds: float = Field(default=10.0, ge=3, description="a number of seconds, at least 3")
    legs: Annotated[tuple[str, ...], some_of(LEGS)] = LEGS
    links: Annotated[tuple[str, ...], some_of(_MANY)] = _MANY

    def points(self, _topology: Topology) -> list[Point]:
        """All that has no number of links or no leg of its own is measured over two links, by tunnels."""
        of_cuts = (_STRIPPED, events.CARRIER, events.SILENCE)
        return [
            *({"leg": leg, "links": many, "what": _BONDED} for leg in self.legs for many in self.links),
            *({"leg": leg, "links": _MANY[0], "what": what} for leg in self.legs for what in of_cuts),
            *({"leg": WIREGUARD, "links": _MANY[0], "what": what} for what in (_WAITING, _RATES, _REVOKED)),
            *({"leg": leg, "links": _MANY[0], "what": what} for what, leg in _UNSHAPED.items()),
        ]

    def blueprint(self, profile: Profile, point: Point) -> Ground[Household]:
        what = point["what"]
        # Who is shut out is so where no link was cut before: the router would hold that one back for half a minute.
        queue = _QUEUE if what in (_WAITING, _RATES, _REVOKED) else None
        share = _ALLOWED if what == _RATES else None
        shaped = what not in _UNSHAPED
        return household(profile, point["leg"], int(point["links"]), shaped=shaped, queue=queue, share=share)

    def measure(self, built: Household, point: Point, repetition: int) -> Reading:
        """Raises CommandError: exit 1 if a byte of a download is wrong, 71 if one breaks off."""
        what = point["what"]
        events.let_in(built)
        if what in _CALL_GAPS:
            noticed = events.cut(built, built.network.links[0], what)
            kept = float(len(noticed.addresses) == 1)
            values = {"udp_gap_s": noticed.call_gap, "tcp_gap_s": noticed.download_gap, "kept_address": kept}
            return Reading(point, repetition, values)
        if what in (_WAITING, _RATES):
            return Reading(point, repetition, _loaded(built, self.seconds))
        if what == _REVOKED:
            return Reading(point, repetition, {"revoke_s": events.revoke(built)})
        if what in _UNSHAPED:
            return Reading(point, repetition, _unshaped(built, self.seconds))
        if what == _STRIPPED:
            with built.network.stripping(built.network.links[1]):
                return Reading(point, repetition, *_bonded(built, self.seconds))
        return Reading(point, repetition, *_bonded(built, self.seconds))

    def judge(self, _topology: Topology, readings: Readings) -> Iterator[Verdict]:
        return chain(self._on_rates(readings), self._on_cuts(readings), _on_waiting(readings))

    def metrics(self, readings: Readings) -> list[Metric]:
        """Of two links. `bonded_vs_tunnels`: a device's download by both, beside the sum of what each tunnel carries by
        itself. `wireguard_vs_plain`: that download beside the same by the plain leg, in which MPTCP's option passes.
        `udp_gap_ms`, `tcp_gap_ms`: the longest time without an answer to a call and without a byte of a download, when
        the better link loses its carrier; `silent_` before them: when it falls silent. `link_` and `tunnel_`: by one
        alone.
        """
        bonded = {leg: readings.at(leg=leg, links=_MANY[0], what=_BONDED) for leg in LEGS}
        downloads = {leg: these.repeated("bonded_mbps") for leg, these in bonded.items()}
        alone = {what: readings.at(what=what) for what in _UNSHAPED}
        cuts = {"": readings.at(leg=WIREGUARD, what=events.CARRIER)}
        cuts["silent_"] = readings.at(leg=WIREGUARD, what=events.SILENCE)
        costs = [f"{end}_cpu_s_per_gb" for end in ("router", "gateway", "machine")]
        return [
            ratio("bonded_vs_tunnels", downloads[WIREGUARD], bonded[WIREGUARD].repeated("sum_mbps")),
            ratio("wireguard_vs_plain", downloads[WIREGUARD], downloads[PLAIN]),
            ratio("tunnel_vs_link", alone[_TUNNEL].repeated("mbps"), alone[_LINK].repeated("mbps")),
            *(
                Metric(f"{how}{kind}_gap_ms", [1000 * gap for gap in these.values(f"{kind}_gap_s")])
                for how, these in cuts.items()
                for kind in ("udp", "tcp")
            ),
            *(Metric(f"{leg}, bonded", [*rate.numbers.values()], "Mbit/s") for leg, rate in downloads.items()),
            *(metric for what, these in alone.items() for metric in metrics_of(these, ["mbps", *costs], f"{what}_")),
            *metrics_of(readings, ["revoke_s"]),
        ]

    def draw(self, figure: Figure, topology: Topology, readings: Readings) -> None:
        titled = {
            f"{leg}, {many} links": readings.at(leg=leg, links=many, what=_BONDED) for leg in LEGS for many in _MANY
        }
        titled |= {f"{leg}, stripped": readings.at(leg=leg, what=_STRIPPED) for leg in LEGS}
        first = {title: next(iter(these)) for title, these in titled.items() if list(these)}
        rates = {f"{title}:\n{each.values['bonded_mbps']:.1f} Mbit/s": each for title, each in first.items()}
        paths(figure, colours_of(link.name for link in topology.links), rates, "frames, Mbit/s (links stacked)")

    def _on_rates(self, readings: Readings) -> Iterator[Verdict]:
        for leg, many in product(self.legs, self.links):
            share = readings.at(leg=leg, links=many, what=_BONDED).estimate("share_percent")
            yield at_least(f"{many} links are bonded ({leg})", share, _SHARE, "% of their sum")
        tunnels, plain = (readings.at(leg=leg, what=_STRIPPED) for leg in (WIREGUARD, PLAIN))
        if WIREGUARD in self.legs:
            share = tunnels.estimate("share_percent")
            stripped = "past a provider that strips MPTCP's option, too (wireguard)"
            yield at_least(f"2 links are bonded {stripped}", share, _SHARE, "% of their sum")
        if PLAIN in self.legs:
            rate, best = plain.repeated("bonded_mbps"), plain.repeated(f"{_BEST}_mbps")
            yield at_most("where the plain leg has one link left", rate, best, "Mbit/s")

    def _on_cuts(self, readings: Readings) -> Iterator[Verdict]:
        for how, gap in _CALL_GAPS.items():
            if WIREGUARD in self.legs:
                tunnels = readings.at(leg=WIREGUARD, what=how)
                yield at_most(
                    f"a call goes on through a cut ({how}, wireguard)", tunnels.estimate("udp_gap_s"), gap, "s"
                )
                changed = [1 - kept for kept in tunnels.values("kept_address")]
                yield worst(f"with one address ({how}, wireguard)", changed, 0, "calls that had another")
            for leg in self.legs:
                pause = readings.at(leg=leg, what=how).estimate("tcp_gap_s")
                yield at_most(f"a download goes on through a cut ({how}, {leg})", pause, _DOWNLOAD_GAP, "s")


def _loaded(home: Household, seconds: float) -> dict[str, float]:
    """What a call's answers take on idle links, and behind a download."""
    device = home.network.device
    with calling(device) as call:
        time.sleep(WARM_UP)
        idle = call().waited(0.0)
    with calling(device) as call, downloading(device, seconds) as download:
        begun = time.monotonic() + WARM_UP
        told = download.end()
        loaded = call().waited(begun)
    times = {"idle_ms": 1000 * idle, "loaded_ms": 1000 * loaded, "added_ms": 1000 * (loaded - idle)}
    return {**times, "bonded_mbps": told["bits_per_second"] / 1e6}


def _unshaped(home: Household, seconds: float) -> dict[str, float]:
    """By the first way alone."""
    with costing(home) as cost, one_way(home, home.network.links[0], seconds) as download:
        told, spent = download.end(), cost()
    return {"mbps": told["bits_per_second"] / 1e6, **per_gigabyte(spent, told["bytes"])}


def _bonded(home: Household, seconds: float) -> tuple[dict[str, float], Mapping[str, Sequence[tuple[float, float]]]]:
    """Values and series of a device's download, beside what each way carries by itself."""
    by_link = alone(home, seconds)
    with costing(home) as cost, downloading(home.network.device, seconds) as download:
        series = watched(home, seconds)
        told, spent = download.end(), cost()
    rate, total = told["bits_per_second"] / 1e6, sum(by_link.values())
    values = {f"{name}_mbps": each for name, each in by_link.items()}
    values |= {"seconds": seconds, "bonded_mbps": rate, "sum_mbps": total, "share_percent": 100 * rate / total}
    return values | per_gigabyte(spent, told["bytes"]), series


def _on_waiting(readings: Readings) -> Iterator[Verdict]:
    filled, kept = (readings.at(what=what).estimate("added_ms") for what in (_WAITING, _RATES))
    yield at_least("a call waits behind a download that fills a link", filled, _ADDED, "ms longer")
    yield at_most("where the router knows the links' rates it does not", kept, _ADDED, "ms longer")

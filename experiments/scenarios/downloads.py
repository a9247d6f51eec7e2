"""What the experiments on downloads have in common: the workload, what is read off it, and how it is drawn."""

from collections.abc import Callable, Mapping
from math import ceil
from statistics import fmean
from typing import Self

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from experiments.fetch import fetch
from experiments.plots import colours_of, line, paths
from experiments.record import Download, Sample
from experiments.study.blueprint import CONVERTERS, TestbedBlueprint
from experiments.study.experiment import Buffers, Experiment, Seconds
from experiments.study.readings import Point, Reading, Readings, every
from experiments.testbed.appliance import bound_receive_buffer
from experiments.testbed.build import Testbed
from experiments.testbed.server import File, random_file
from experiments.testbed.topology import DEFAULT_QUEUE, LinkSettings, Profile, Topology
from experiments.testbed.usage import counted
from tributary.settings.errors import CommandError, Exit
from tributary.settings.units import Size

RECEIVE_BUFFER = {"receive-buffer": "buffer", "net.ipv4.tcp_rmem": "buffer"}
"""``own_axes`` of experiments that bound what the client receives by their option ``buffer``."""
FULL_MTU = 1500
NO_MARK = 4294967295
"""The kernel's own tcp_notsent_lowat."""
_STYLES = {"squid": ("#555555", "s", "--"), "native": ("black", "o", "-"), "legacy": ("#D55E00", "^", ":")}


class TimedExperiment(Experiment):
    """Every download breaks off after ``seconds``; its rates count from ``warm_up`` seconds on."""

    seconds: Seconds = 6.0
    warm_up: float = Field(default=2.0, ge=0, description="a number of seconds")

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.seconds <= self.warm_up:
            raise ValueError("seconds above those of warm_up")
        return self

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """A download, and what the kernels counted meanwhile, of MPTCP's segments and of TCP's."""
        with counted(testbed.client) as at_client, counted(testbed.gateway) as at_gateway:
            download = self.download(testbed, point, repetition)
            client, gateway = at_client(), at_gateway()
        counts = {
            "segments_that_waited": float(client["MPTcpExtOFOQueue"]),
            "segments_twice": float(client["MPTcpExtDuplicateData"]),
            "segments_sent_again": float(gateway["MPTcpExtMPTCPRetrans"]),
            "tcp_retransmits": float(gateway["TcpRetransSegs"]),
        }
        return reading_of(download, point, repetition, values_of(download, self.warm_up) | counts)

    def download(self, testbed: Testbed, point: Point, repetition: int) -> Download:
        """What comes in ``seconds`` of a file that lasts longer."""
        file = file_lasting(testbed.topology, self.seconds, seed=repetition)
        return fetched(testbed, point, file, self.seconds)


class BufferExperiment(TimedExperiment):
    """``buffer``: the sizes to try, each as the most that the client's receiving sockets may take (tcp_rmem)."""

    over = "buffer.toml"
    own_axes = RECEIVE_BUFFER

    buffer: Buffers

    def blueprint(self, profile: Profile, point: Point) -> TestbedBlueprint:
        """Links with the point's MTU, if it has one, and the gateway sends as a kernel by itself does, the papers'
        among them: with the appliance's low mark for unsent bytes a slow path is given less at a time, and MPTCP does
        with a smaller buffer.
        """
        sysctls = {"net.ipv4.tcp_notsent_lowat": str(NO_MARK)}
        if "mtu" not in point:
            return TestbedBlueprint(profile, sysctls=sysctls)
        mtu = int(point["mtu"])
        return TestbedBlueprint(with_queues_of_as_many_bytes(profile, mtu), sysctls=sysctls, mtu=mtu)

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        bound_receive_buffer(testbed, Size.parse(point["buffer"]).amount)
        return super().measure(testbed, point, repetition)


def megabytes(size: str) -> float:
    """What a point calls ``size``, as a number."""
    return Size.parse(size).amount / 1e6


def with_queues_of_as_many_bytes(profile: Profile, mtu: int) -> Profile:
    """``profile``, whose queues count full packets, for packets of ``mtu`` bytes."""
    factor = FULL_MTU / mtu
    return Profile(links={name: _with_queues(link, factor) for name, link in profile.links.items()})


def _with_queues(link: LinkSettings, factor: float) -> LinkSettings:
    """With ``factor`` times as many packets in every queue, and room for one at least."""
    ways = {
        name: way.model_copy(update={"queue": way.queue and max(1, round(factor * way.queue))})
        for name, way in (("down", link.down), ("up", link.up))
    }
    return link.model_copy(update={"queue": max(1, round(factor * (link.queue or DEFAULT_QUEUE))), **ways})


def draw_sweep(
    axes: Axes, over: Mapping[float, Readings], value: str, by: str, scale: float = 1, about: str = ""
) -> None:
    """``value`` times ``scale`` as ``by`` has it, with its interval, ``over`` a quantity.

    A line with something to say ``about`` it is pale.
    """
    colour, marker, how = _STYLES[by]
    found = {place: readings.at(by=by).estimate(value).scaled(scale) for place, readings in over.items()}
    style = {"color": colour, "marker": marker, "linestyle": how, "alpha": 0.4 if about else 1}
    line(axes, found, f"{by}{about}", **style)


LEGACY = "legacy"
_STEP = 10_000_000  # bytes between the sizes of files, so that few are needed


class DownloadExperiment(Experiment):
    """A file of ``size`` for every download, which breaks off after ``longest`` seconds; its rates count from
    ``warm_up`` seconds on, when slow start is over.
    """

    quick = {"repeat": 1, "size": "20MB", "warm_up": 0.5}

    size: Size = Size(50_000_000)
    longest: Seconds = 3600.0
    warm_up: float = Field(default=1.0, ge=0, description="a number of seconds")

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        download = fetched(testbed, point, random_file(self.size.amount, seed=repetition), self.longest)
        return reading_of(download, point, repetition, values_of(download, self.warm_up))


def reading_of(download: Download, point: Point, repetition: int, values: Mapping[str, float]) -> Reading:
    """What a ``download`` gave: these ``values``, each path's throughput over time, and what its sender knew."""
    return Reading(point, repetition, values, download.series(), sending=download.sending)


def fetched(
    testbed: Testbed,
    point: Point,
    file: File,
    seconds: float | None = None,
    progress: Callable[[int], None] = lambda _received: None,
) -> Download:
    """One download over ``point["link"]`` as its first path; ``point["by"]`` is "legacy" or the converter.

    Raises CommandError (exit 1) if a byte of it is wrong.
    """
    proxy, ipv6 = CONVERTERS.get(point["by"]), point["family"] == "ipv6"
    download = fetch(testbed, point["by"], file, point["link"], proxy, ipv6, progress, seconds)
    if download.sha256 != file.sha256_of(download.size):
        raise CommandError(Exit.WRONG_RESULT, f"a download by {point['by']} has the wrong SHA-256")
    return download


def file_lasting(topology: Topology, seconds: float, seed: int) -> File:
    """A file that takes all links together ``seconds`` or longer."""
    most = sum(link.down.rate.amount for link in topology.links) * seconds / 8
    return random_file(_STEP * ceil(most / _STEP), seed)


def legacy_points(topology: Topology) -> list[Point]:
    """Legacy TCP over each link alone."""
    return every(by=[LEGACY], link=[link.name for link in topology.links], family=topology.families)


def draw_panels(figure: Figure, topology: Topology, titled: Mapping[str, Readings]) -> list[Axes]:
    """A panel of throughput over time by title: of the first of its readings; returns the panels."""
    first = {title: next(iter(readings)) for title, readings in titled.items()}
    rates = {f"{title}: {each.values['mbps']:.1f} Mbit/s": each for title, each in first.items()}
    return paths(figure, colours_of(link.name for link in topology.links), rates)


def values_of(download: Download, warm_up: float) -> dict[str, float]:
    """Seconds, Mbit/s over all and behind the warm-up, subflows, memory that waits behind it, and each path's bytes.

    Raises CommandError (exit 64) if nothing is left behind the warm-up.
    """
    end = download.samples[-1]
    # Nothing has come at the request; all of a short answer may come with its head, in one sample.
    begin = next(sample for sample in (Sample(0, {}, {}), *download.samples) if sample.at >= min(warm_up, end.at))
    if begin.at >= end.at:
        took = f"the download took {end.at:.2f} s, warm_up is {warm_up:g} s"
        raise CommandError(Exit.USAGE, f"{took}: accepted: a larger size, or a shorter warm_up")
    moved = sum(end.by_path().values()) - sum(begin.by_path().values())
    values = {
        "seconds": download.seconds,
        "mbps": download.mbps,
        "steady_mbps": 8 * moved / (end.at - begin.at) / 1e6,
        "subflows": float(download.subflows),
    }
    waiting = [sample.waiting for sample in download.samples if sample.at >= begin.at and sample.waiting is not None]
    values |= {"waiting_kb": fmean(waiting) / 1000} if waiting else {}
    return values | {f"{path}_bytes": float(count) for path, count in end.by_path().items()}

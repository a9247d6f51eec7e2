"""What a download gives, as data: samples over time, and what follows from them. Pure: no clock, no network."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tributary.settings.hosts import joined


@dataclass(frozen=True)
class Sample:
    """The state of a download ``at`` seconds after its start.

    ``received`` holds the payload bytes of each subflow, by its path and its local ``address:port``; ``wire`` the
    bytes of frames that have come in by each path; ``body`` what the client has read of the body, each byte once and
    in order, 0 if nobody told; ``waiting`` the bytes of memory that what came out of order takes, None likewise.
    """

    at: float
    received: Mapping[tuple[str, str], int]
    wire: Mapping[str, int]
    body: int = 0
    waiting: float | None = None

    def by_path(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for (path, _), count in self.received.items():
            total[path] = total.get(path, 0) + count
        return total


Sending = Mapping[str, Sequence[tuple[float, float, float, float]]]
"""What the sender of each subflow knew, over time: seconds since the request, congestion window in segments, round-trip
time in milliseconds, and segments sent again so far. Subflows are called PATH, or PATH-2 if a path had another before.
"""


@dataclass(frozen=True)
class Download:
    """A finished download; ``started`` is Unix time, the last sample is the state at its end.

    ``sending`` is what its sender knew, where that was looked at.
    """

    name: str
    started: float
    status: int
    size: int
    sha256: str
    samples: Sequence[Sample]
    sending: Sending = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """From the first byte of the request to the last of the body."""
        return self.samples[-1].at

    @property
    def mbps(self) -> float:
        """Body bits per second, in millions."""
        return 8 * self.size / self.seconds / 1e6

    @property
    def subflows(self) -> int:
        """How many subflows there have ever been: more than one for a path means that it reconnected."""
        return len({subflow for sample in self.samples for subflow in sample.received})

    def wire_mbps(self, path: str, after: float = 0, before: float = float("inf")) -> float:
        """Frame bits per second that came in by ``path`` from ``after`` seconds to ``before``, in millions."""
        first = next(sample for sample in self.samples if sample.at >= after)
        last = next((sample for sample in self.samples if sample.at >= before), self.samples[-1])
        return 8 * (last.wire[path] - first.wire[path]) / (last.at - first.at) / 1e6 if last.at > first.at else 0

    def rates(self) -> Iterator[tuple[float, str, int, float]]:
        """The throughput over time: (seconds, path, payload bytes so far, Mbit/s since the sample before)."""
        for before, now in zip(self.samples, self.samples[1:], strict=False):
            # Two samples can be a moment apart when the download ends between two ticks.
            if now.at - before.at < 0.02:
                continue
            for path, count in now.by_path().items():
                rate = 8 * (count - before.by_path().get(path, 0)) / (now.at - before.at) / 1e6
                yield now.at, path, count, rate

    def series(self) -> dict[str, list[tuple[float, float]]]:
        """The throughput over time by path: (seconds, Mbit/s since the sample before)."""
        series: dict[str, list[tuple[float, float]]] = {}
        for at, path, _, rate in self.rates():
            series.setdefault(path, []).append((at, rate))
        return series


def read_download(name: str, lines: Sequence[Mapping[str, Any]], path_of: Callable[[str], str]) -> Download:
    """A Download from the JSON objects that experiments.probes.download prints; ``path_of`` names an address's path."""
    return Download(
        name=name,
        started=lines[-1]["started"],
        status=lines[-1]["status"],
        size=lines[-1]["bytes"],
        sha256=lines[-1]["sha256"],
        samples=_without_gaps([_read_sample(line, path_of) for line in lines]),
    )


def read_sending(
    lines: Sequence[Sequence[Any]], download: Download, path_of: Callable[[str], str]
) -> dict[str, list[tuple[float, float, float, float]]]:
    """What experiments.probes.senders told of the subflows of ``download``, by the subflow."""
    own = {local for sample in download.samples for _, local in sample.received}
    names: dict[str, str] = {}
    found: dict[str, list[tuple[float, float, float, float]]] = {}
    for now, subflows in lines:
        at = round(now - download.started, 3)
        for address, port, *known in subflows:
            local = joined(address, port)
            if local in own and 0 <= at <= download.seconds:
                name = names.setdefault(local, _name(path_of(address), names.values()))
                found.setdefault(name, []).append((at, *known))
    return found


def _name(path: str, taken: Collection[str]) -> str:
    number = 1 + sum(name == path or name.startswith(f"{path}-") for name in taken)
    return path if number == 1 else f"{path}-{number}"


def _read_sample(line: Mapping[str, Any], path_of: Callable[[str], str]) -> Sample:
    received = {}
    for subflow in line["subflows"]:
        address = subflow["local"].rpartition(":")[0].strip("[]")
        received[path_of(address), subflow["local"]] = subflow["received"]
    return Sample(line["at"], received, line["wire"], line.get("bytes", 0), line.get("waiting"))


def _without_gaps(samples: Sequence[Sample]) -> list[Sample]:
    """A subflow that is closed drops out of the kernel's list: what it carried until then stays counted."""
    seen: dict[tuple[str, str], int] = {}
    whole = []
    for sample in samples:
        seen.update(sample.received)
        whole.append(replace(sample, received=dict(seen)))
    return whole

"""What the experiments on downloads have in common: the workload, and what is read off it."""

from pydantic import Field

from experiments.fetch import fetch
from experiments.record import Download
from experiments.study.readings import Point, Reading
from experiments.study.scenario import Options
from experiments.study.stage import CONVERTERS, Stage
from experiments.testbed.server import random_file
from settings.failure import Exit, Failure
from settings.units import Size

FAMILIES = ("ipv4", "ipv6")
LEGACY = "legacy"


class DownloadOptions(Options):
    """A file of ``size`` for every download; its rates count from ``warm_up`` seconds on, when slow start is over."""

    size: Size = Field(default=Size(50_000_000), description="a size, such as '50MB'")
    warm_up: float = Field(default=1.0, ge=0, description="a number of seconds")


def measure(stage: Stage, options: DownloadOptions, point: Point, repetition: int) -> Reading:
    """One download over ``point["link"]`` as its first path; ``point["by"]`` is "legacy" or the converter.

    Raises Failure (exit 1) if a byte of it is wrong.
    """
    file = random_file(options.size.amount, seed=repetition)
    proxy = CONVERTERS.get(point["by"])
    download = fetch(stage.testbed, point["by"], file, point["link"], proxy, point["family"] == "ipv6")
    if download.sha256 != file.sha256:
        raise Failure(Exit.WRONG_RESULT, f"a download by {point['by']} has the wrong SHA-256")
    return Reading(point, repetition, values_of(download, options.warm_up), download.series())


def values_of(download: Download, warm_up: float) -> dict[str, float]:
    """Seconds, Mbit/s over all and behind the warm-up, subflows, and each path's bytes.

    Raises Failure (exit 64) if nothing is left behind the warm-up.
    """
    end = download.samples[-1]
    begin = next(sample for sample in download.samples if sample.at >= min(warm_up, end.at))
    if begin.at >= end.at:
        took = f"the download took {end.at:.2f} s, warm_up is {warm_up:g} s"
        raise Failure(Exit.USAGE, f"{took}: accepted: a larger size, or a shorter warm_up")
    moved = sum(end.by_path().values()) - sum(begin.by_path().values())
    values = {
        "seconds": download.seconds,
        "mbps": download.mbps,
        "steady_mbps": 8 * moved / (end.at - begin.at) / 1e6,
        "subflows": float(download.subflows),
    }
    return values | {f"{path}_bytes": float(count) for path, count in end.by_path().items()}

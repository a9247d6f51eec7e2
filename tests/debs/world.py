"""The packages themselves, made from this checkout for each release, as scripts/build-deb makes them."""

import platform
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from debs import archive, build, parts
from debs.package import Inputs
from debs.release import ARCHITECTURES, SUITES, Release
from tributary.paths import CACHE

SERVICES = ("tributary-converter", "tributary-throttler", "tributary-squid")
"""Packages whose one service, of the same name, is enabled by installing them."""

NAMES = (
    *("tributary-common", *SERVICES, "tributary-handoff", "tributary-overlay", "tributary-router", "tributary-gateway"),
    *("tributary-console", "tributary-image"),
)
_DAY = 24 * 60 * 60


@dataclass(frozen=True)
class Made:
    """All packages of a release, those made from the same a second time, and what a commit of the next day gives."""

    release: Release
    now: Sequence[Path]
    again: Sequence[Path]
    newer: Release
    later: Sequence[Path]


def make(suite: str, folder: Path) -> Made:
    """The real thing, in ``folder``: wheels from the index, and a static converter, built once for all releases."""
    here = next(each for each in ARCHITECTURES.values() if each.machine == platform.machine())
    made_of = build.gather(build.Order(SUITES[suite], here, output=folder, cache=CACHE / "packages"))
    next_day = _a_day_later(made_of)
    with ThreadPoolExecutor(2) as pool:  # xz takes most of the time
        now, again = (pool.submit(_pack, made_of, folder / place) for place in ("now", "again"))
        later = pool.submit(_pack_quickly, next_day, folder / "later")
    return Made(made_of.release, now.result(), again.result(), next_day.release, later.result())


def _a_day_later(made_of: Inputs) -> Inputs:
    commit = replace(made_of.release.commit, time=made_of.release.commit.time + _DAY)
    return replace(made_of, release=replace(made_of.release, commit=commit))


def _pack(made_of: Inputs, folder: Path) -> list[Path]:
    folder.mkdir()
    return [archive.build(package, made_of, folder) for package in parts.packages(made_of)]


def _pack_quickly(made_of: Inputs, folder: Path) -> list[Path]:
    """The same packages, not compressed: for dpkg it is all one."""
    folder.mkdir()
    for package in parts.packages(made_of):
        place = folder / package.name
        place.mkdir()
        archive.write(package, made_of, place)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", place, folder], check=True)
    return sorted(folder.glob("*.deb"))

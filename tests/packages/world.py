"""The packages themselves, made once for each Debian release from this checkout, as scripts/build-deb makes them."""

import platform
from dataclasses import replace
from functools import cache
from pathlib import Path

from experiments.cache import CACHE
from packages import archive, build, parts
from packages.package import Inputs
from packages.release import ARCHITECTURES, SUITES

SERVICES = ("tributary-converter", "tributary-throttler", "tributary-squid")
"""Packages whose one service, of the same name, is enabled by installing them."""

NAMES = ("tributary-common", *SERVICES, "tributary-cpe", "tributary-image")
_DAY = 24 * 60 * 60


@cache
def inputs(suite: str) -> Inputs:
    """The real thing: wheels from the index, and a static converter, built for both releases."""
    here = next(each for each in ARCHITECTURES.values() if each.machine == platform.machine())
    return build.gather(build.Order(SUITES[suite], here, output=Path("/nowhere"), cache=CACHE / "packages"))


def a_day_later(made_of: Inputs) -> Inputs:
    """The same, as a commit of the next day would give it: a newer version."""
    commit = replace(made_of.release.commit, time=made_of.release.commit.time + _DAY)
    return replace(made_of, release=replace(made_of.release, commit=commit))


def packed(made_of: Inputs, folder: Path) -> list[Path]:
    """All packages, in ``folder``."""
    folder.mkdir()
    return [archive.build(package, made_of, folder) for package in parts.packages(made_of)]

"""The control files of a package (deb-control(5), Debian Policy chapters 5, 6 and 12): values in, text out."""

import json
import os
import tomllib
from collections.abc import Sequence
from email.utils import format_datetime
from pathlib import Path

from debs.package import Inputs, Package
from debs.program import CONVERTER, HANDOFF, OVERLAY
from debs.release import Release
from tributary.settings.templates import rendered

_TEMPLATES = Path(__file__).parent / "templates"
_PROGRAMS = {"tributary-converter": CONVERTER, "tributary-handoff": HANDOFF, "tributary-overlay": OVERLAY}
_VENDORED = "console/static/vendor/lock.json"
SCRIPTS = ("postinst", "prerm", "postrm")


def maintainer() -> str:
    """Who answers for the packages: DEBFULLNAME and DEBEMAIL, as Debian's own tools take them."""
    return f"{os.environ.get('DEBFULLNAME', 'Tributary')} <{os.environ.get('DEBEMAIL', 'tributary@localhost')}>"


def control(package: Package, release: Release, kibibytes: int) -> str:
    """The file control; ``kibibytes`` is what the files take when installed."""
    return rendered(
        _TEMPLATES / "control.j2",
        package=package,
        version=release.version,
        maintainer=maintainer(),
        kibibytes=kibibytes,
    )


def script(package: Package, name: str) -> str:
    """One of SCRIPTS; empty if there is nothing for it to do."""
    text = rendered(_TEMPLATES / f"{name}.j2", package=package)
    does_something = any(line.strip() and not line.startswith(("#", "set -e")) for line in text.splitlines())
    return text if does_something else ""


def changelog(package: Package, release: Release) -> str:
    """One entry: this build (deb-changelog(5))."""
    return rendered(
        _TEMPLATES / "changelog.j2",
        package=package,
        release=release,
        maintainer=maintainer(),
        date=format_datetime(release.date),
    )


def copyright_file(package: Package, inputs: Inputs) -> str:
    """Whose work is in the package, and under which licence."""
    bundled = inputs.wheels if package.name == "tributary-common" else []
    programs = _PROGRAMS.get(package.name)
    crates = _crates(inputs.checkout["Cargo.lock"].decode(), programs.crates) if programs else []
    vendored = json.loads(inputs.checkout[_VENDORED]) if package.name == "tributary-console" else []
    return rendered(_TEMPLATES / "copyright.j2", package=package, wheels=bundled, crates=crates, vendored=vendored)


def _crates(lock: str, ours: Sequence[str]) -> Sequence[str]:
    """The crates of crates.io that ``ours`` depend on, by themselves or by others."""
    packages = tomllib.loads(lock)["package"]
    # A lock names the version only where there are several.
    named = {name: each for each in packages for name in (each["name"], f"{each['name']} {each['version']}")}
    reached: dict[str, None] = {}
    waiting = list(ours)
    while waiting:
        if (name := waiting.pop()) not in reached:
            reached[name] = None
            waiting += named[name].get("dependencies", [])
    found = (named[name] for name in reached)
    return sorted(f"{each['name']} {each['version']}" for each in found if "source" in each)

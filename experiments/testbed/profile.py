"""Profiles of access links: read from a file, changed on the command line."""

import argparse
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from experiments.testbed import trace
from experiments.testbed.topology import Profile
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.files import check, read
from tributary.settings.units import Share

PROFILES = trace.PROFILES
DEFAULT = PROFILES / "ethernet-wifi.toml"
TOLERANCE = 0.05
"""By how much a link may be off its description."""

_ONE_OF_TWO = {"rate": "trace", "trace": "rate"}


def add_profile_arguments(parser: argparse.ArgumentParser) -> None:
    """Give ``parser`` the options --profile and --set, which changed_profile takes."""
    parser.add_argument(
        "--profile", type=Path, default=DEFAULT, metavar="FILE", help=f"the access links (default: {DEFAULT.name})"
    )
    about = "change one key of the profile, such as wired.rate=50mbit or wireless.up.loss=1%%; may be repeated;"
    about += " a rate takes the place of a trace, and a trace that of a rate"
    add_repeated(parser, "--set", "changes", "LINK.KEY=VALUE", about)


def add_repeated(parser: argparse.ArgumentParser, option: str, name: str, metavar: str, about: str) -> None:
    """Give ``parser`` an option that may be repeated: who takes ``name`` gets all of its values."""
    parser.add_argument(option, dest=name, action="append", default=[], metavar=metavar, help=about)


def add_tolerance(parser: argparse.ArgumentParser) -> None:
    """Give ``parser``, of a command that checks its links, the option --tolerance."""
    parser.add_argument(
        "--tolerance",
        type=Share.argument,
        default=Share.parse(f"{TOLERANCE:.0%}"),
        metavar="SHARE",
        help="by how much a link may be off its description (default: %(default)s)",
    )


def changed_profile(path: Path, changes: Sequence[str]) -> Profile:
    """The profile in ``path`` with ``changes`` such as ``wired.rate=50mbit``; raises CommandError with exit 64 or
    66.
    """
    document = changed(_anchored(read(path), path.parent.absolute()), changes)
    return check(document, Profile, where=" ".join([str(path), *(f"--set {change}" for change in changes)]))


def changed(document: dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """A profile's ``document`` with ``changes`` such as ``wired.rate=50mbit``; raises CommandError with exit 64.

    A trace's path is relative to the working directory, as every path on a command line.
    """
    document = deepcopy(document)
    for change in changes:
        _apply(document, change)
    return document


def _apply(document: dict[str, Any], change: str) -> None:
    """Apply ``LINK.KEY=VALUE`` or ``LINK.DIRECTION.KEY=VALUE``; what the key accepts is checked with the whole."""
    path, equals, value = change.partition("=")
    names = path.split(".")
    if not equals or len(names) not in (2, 3) or "" in names:
        raise CommandError(Exit.USAGE, f"--set {change}: accepted: LINK.KEY=VALUE, such as wired.rate=50mbit")
    link, *tables, key = names
    links = document.get("links", {})
    if link not in links:
        raise invalid_value("--set", path, value, f"one of the links {', '.join(links)}")
    table = links[link]
    for name in tables:
        table = table.setdefault(name, {})
    if key in _ONE_OF_TWO:
        table.pop(_ONE_OF_TWO[key], None)
    table[key] = _value(key, value)


def _value(key: str, text: str) -> int | str:
    if key == "trace" and text:
        return str(Path(text).absolute())
    return int(text) if text.isdecimal() else text


def _anchored(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """A profile's ``document`` in which the relative paths of traces begin at ``folder``."""
    anchored = {key: _anchored(value, folder) if isinstance(value, dict) else value for key, value in document.items()}
    trace = anchored.get("trace")
    return anchored | ({"trace": str(folder / trace)} if trace and isinstance(trace, str) else {})

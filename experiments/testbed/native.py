"""The programs of the Rust workspace converter/: the native converter, and the traffic to try it with."""

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tributary.places import CACHE
from tributary.settings.failure import Exit, Failure

_BUILD = Path(__file__).parents[2] / "scripts/setup.d/converter"


@dataclass(frozen=True)
class Programs:
    """Where the programs are."""

    converter: Path
    load: Path


@cache
def build(*, released: bool = False) -> Programs:
    """The programs, built anew if their source has changed; without cargo those that are there. Asked for once in a
    process: all readings of a run are of one program.

    As a package has them if ``released``: whoever compares their speed with others' wants that, and waits for it.
    Raises Failure: exit 69 if there are none, 71 if they do not build.
    """
    _make("the converter", *(("--released",) if released else ()))
    place = CACHE / ("released" if released else "bin")
    programs = Programs(place / "tributary-converter", place / "tributary-load")
    if not programs.converter.exists():
        raise Failure(Exit.UNAVAILABLE, f"{programs.converter}: not found (scripts/setup builds it)")
    return programs


@dataclass(frozen=True)
class Relays:
    """The examples of converter/transplant: relays that leave their work to the kernel."""

    leaving: Path
    joining: Path


@cache
def relays() -> Relays:
    """The relays, built anew if their source has changed.

    Raises Failure: exit 69 if there are none, 71 if they do not build, as without clang.
    """
    _make("the relays that leave", "--leaving")
    found = Relays(CACHE / "bin/leaving-relay", CACHE / "bin/joining-relay")
    if not found.joining.exists():
        message = f"{found.joining}: not found (scripts/setup.d/converter {CACHE} --leaving builds it)"
        raise Failure(Exit.UNAVAILABLE, message)
    return found


@dataclass(frozen=True)
class HandOff:
    """What a request hand-off needs beside the converter."""

    switch: Path
    back_end: Path


@cache
def hand_off(*, released: bool = False) -> HandOff:
    """The switch and the back end, built anew if their source has changed; as a package has them if ``released``.

    Raises Failure: exit 69 if there are none, 71 if they do not build, as without clang.
    """
    _make("the hand-off", *(("--released",) if released else ()), build=_BUILD.with_name("handoff"))
    place = CACHE / ("released" if released else "bin")
    found = HandOff(place / "tributary-switch", place / "tributary-backend")
    if not found.switch.exists():
        raise Failure(Exit.UNAVAILABLE, f"{found.switch}: not found (scripts/setup.d/handoff {CACHE} builds it)")
    return found


@cache
def switch_costs() -> Path:
    """The example of handoff/switch that measures a switch, built anew if its source has changed.

    Raises Failure: exit 69 if there is none, 71 if it does not build, as without clang.
    """
    _make("what measures a switch", "--costs", build=_BUILD.with_name("handoff"))
    found = CACHE / "bin/switch-costs"
    if not found.exists():
        raise Failure(Exit.UNAVAILABLE, f"{found}: not found (scripts/setup.d/handoff {CACHE} --costs builds it)")
    return found


def _make(what: str, *how: str, build: Path = _BUILD) -> None:
    if not shutil.which("cargo"):
        return
    built = subprocess.run([build, CACHE, *how], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        reasons = [line for line in built.stderr.splitlines() if line.startswith("error")]
        raise Failure(Exit.SYSTEM, f"{what} does not build: {reasons[0] if reasons else built.stderr.strip()}")

"""The programs of the Rust workspace converter/: the native converter, and the traffic to try it with."""

import hashlib
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tributary import cargo
from tributary.paths import CACHE
from tributary.settings.errors import CommandError, Exit

_BUILD = Path(__file__).parents[2] / "scripts/setup.d/converter"


@dataclass(frozen=True)
class Programs:
    """Where the programs are."""

    converter: Path
    load: Path


@dataclass
class _Profile:
    """How this process has the programs built: quickly, or as a package has them."""

    released: bool = False

    @property
    def place(self) -> Path:
        """Where they are put."""
        return CACHE / ("released" if self.released else "bin")

    @property
    def how(self) -> tuple[str, ...]:
        """What their build is told."""
        return ("--released",) if self.released else ()


_profile = _Profile()
_asked: list[Path] = []


def measure_released() -> None:
    """From now on this process runs the programs as a package has them: what is measured is what users have.

    Building them takes three times as long. To be called before the first of them is asked for.
    """
    _profile.released = True


def description() -> dict[str, object]:
    """For a manifest: how the programs that this process has asked for were built, and the digest of each."""
    digests = {program.name: hashlib.sha256(program.read_bytes()).hexdigest()[:12] for program in _asked}
    return {"profile": "released" if _profile.released else "quick", "sha256": digests}


@cache
def build() -> Programs:
    """The programs, built anew if their source has changed; without cargo those that are there. Asked for once in a
    process: all readings of a run are of one program.

    Raises CommandError: exit 69 if there are none, 71 if they do not build.
    """
    _make("the converter", *_profile.how)
    place = _profile.place
    programs = Programs(place / "tributary-converter", place / "tributary-load")
    if not programs.converter.exists():
        command = " ".join((f"scripts/setup.d/converter {CACHE}", *_profile.how))
        raise CommandError(Exit.UNAVAILABLE, f"{programs.converter}: not found ({command} builds it)")
    _asked.extend(vars(programs).values())
    return programs


def are_given() -> bool:
    """Whether the programs are here and cargo is not: they are taken as they are."""
    return not cargo.works() and (_profile.place / "tributary-converter").exists()


@cache
def converter_sources() -> str:
    """A digest of what the converter's workspace is built from, as scripts/setup.d/converter notes it."""
    done = subprocess.run([_BUILD, CACHE, "--sources"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def converter_made_from() -> str:
    """That digest of the sources from which the converter here was built as a package has it; "" if there is none."""
    note = CACHE / "released/converter.made-from"
    return note.read_text().strip() if note.exists() and (CACHE / "released/tributary-converter").exists() else ""


@cache
def offload_relay() -> Path:
    """The example of converter/offload: a relay that offloads its work to the kernel; built if its source has changed.

    Raises CommandError: exit 69 if there is none, 71 if it does not build, as without clang.
    """
    _make("the relay that offloads", "--offload", *_profile.how)
    found = _profile.place / "offload-relay"
    if not found.exists():
        message = f"{found}: not found (scripts/setup.d/converter {CACHE} --offload builds it)"
        raise CommandError(Exit.UNAVAILABLE, message)
    _asked.append(found)
    return found


@dataclass(frozen=True)
class HandOff:
    """What a request hand-off needs beside the converter."""

    switch: Path
    back_end: Path


@cache
def hand_off() -> HandOff:
    """The switch and the back end, built anew if their source has changed.

    Raises CommandError: exit 69 if there are none, 71 if they do not build, as without clang.
    """
    _make("the hand-off", *_profile.how, build=_BUILD.with_name("handoff"))
    found = HandOff(_profile.place / "tributary-switch", _profile.place / "tributary-backend")
    if not found.switch.exists():
        raise CommandError(Exit.UNAVAILABLE, f"{found.switch}: not found (scripts/setup.d/handoff {CACHE} builds it)")
    _asked.extend(vars(found).values())
    return found


@cache
def switch_costs() -> Path:
    """The example of handoff/switch that measures a switch, built anew if its source has changed.

    Raises CommandError: exit 69 if there is none, 71 if it does not build, as without clang.
    """
    _make("what measures a switch", "--costs", build=_BUILD.with_name("handoff"))
    found = CACHE / "bin/switch-costs"
    if not found.exists():
        raise CommandError(Exit.UNAVAILABLE, f"{found}: not found (scripts/setup.d/handoff {CACHE} --costs builds it)")
    return found


def _make(what: str, *how: str, build: Path = _BUILD) -> None:
    if not cargo.works():
        return
    built = subprocess.run([build, CACHE, *how], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        reasons = [line for line in built.stderr.splitlines() if line.startswith("error")]
        raise CommandError(Exit.SYSTEM, f"{what} does not build: {reasons[0] if reasons else built.stderr.strip()}")

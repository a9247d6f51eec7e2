"""A whole run: what was asked for, what it needs, and the packages that come of it."""

import hashlib
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from debs import archive, checkout, elf, parts, program, wheels
from debs.package import LOW_MARK, Inputs
from debs.release import Architecture, Release, Suite, base_version
from tributary.kernel import low_mark, process
from tributary.settings.errors import Exit, refused


@dataclass(frozen=True)
class Order:
    """What to make, and where; ``converter`` is a program that is there already, ``programs`` are built: an overlay's
    package is made only with its own.
    """

    suite: Suite
    architecture: Architecture
    output: Path
    cache: Path
    converter: Path | None = None
    programs: tuple[program.Programs, ...] = program.ALL


@dataclass(frozen=True)
class Made:
    """A package that was made."""

    name: str
    file: Path
    bytes: int
    sha256: str


def release(order: Order, files: Mapping[str, bytes]) -> Release:
    """The release that the checkout would give."""
    pyproject, cargo = (tomllib.loads(files[name].decode()) for name in ("pyproject.toml", "Cargo.toml"))
    return Release(base_version(pyproject, cargo), order.suite, order.architecture, checkout.commit())


def plan(order: Order) -> dict[str, object]:
    """What a run would do, without doing any of it."""
    files = checkout.tracked()
    asked = release(order, files)
    pins = wheels.chosen(files["requirements.lock"].decode(), asked)
    made_by = f"given: {order.converter}" if order.converter else "built from converter/, static"
    return {
        "version": asked.version,
        "suite": order.suite.name,
        "architecture": order.architecture.name,
        "converter": made_by,
        "handoff": "built from handoff/, static",
        "overlay": "built from overlay/, static",
        "wheels": [str(pin) for pin in pins],
        "output": str(order.output),
    }


def packages(order: Order) -> list[Made]:
    """Make all packages of ``order``; raises CommandError, and leaves nothing half done."""
    process.require("dpkg-deb")
    inputs = gather(order)
    with refused(Exit.SYSTEM, order.output, "cannot be written"):
        order.output.mkdir(parents=True, exist_ok=True)
        return [_made(archive.build(package, inputs, order.output), package.name) for package in parts.packages(inputs)]


def gather(order: Order) -> Inputs:
    """All that the packages are made from: fetched and built where it is not there yet."""
    files = checkout.tracked()
    asked = release(order, files)
    if asked.commit.modified:
        _say("note: files differ from the commit; the version says so")
    programs = {**_programs(order, asked, files), LOW_MARK: low_mark.compiled(files[low_mark.SOURCE])}
    pins = wheels.chosen(files["requirements.lock"].decode(), asked)
    _say(f"{len(pins)} Python libraries for {order.suite.name} on {order.architecture.name}")
    return Inputs(asked, files, wheels.fetch(pins, asked, order.cache), programs)


def _programs(order: Order, asked: Release, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """What is in each, by its name; the converter first, which may be a given one."""
    found: dict[str, bytes] = {}
    for programs in order.programs:
        for name, path in _built(order, programs, files).items():
            found[name] = _accepted(path, asked)
    return found


def _built(order: Order, programs: program.Programs, files: Mapping[str, bytes]) -> Mapping[str, Path]:
    if programs is program.CONVERTER and order.converter:
        return {programs.names[0]: order.converter}
    names = " and ".join(programs.names)
    _say(f"{names} for {order.architecture.name} (some minutes, if sources have changed)")
    return program.make(programs, order.architecture, files, order.cache)


def _accepted(path: Path, asked: Release) -> bytes:
    with refused(Exit.NO_INPUT, path):
        content = path.read_bytes()
    elf.depends(str(path), content, asked)  # refused by its own name, and before anything long begins
    return content


def _made(path: Path, name: str) -> Made:
    content = path.read_bytes()
    _say(f"made {path.name}")
    return Made(name, path, len(content), hashlib.sha256(content).hexdigest())


def _say(what: str) -> None:
    print(f"build-deb: {what}", file=sys.stderr, flush=True)

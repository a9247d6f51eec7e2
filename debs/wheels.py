"""Wheels for the target: which of requirements.lock packages bundle, fetched by pip, checked by their hashes, unpacked.

pip judges markers by the interpreter that it runs on, also when it fetches for another one. Here they are judged by the
target, and pip is told exact versions with their hashes. Unpacked here, and not installed: what pip writes beside a
wheel's own files (scripts with this machine's Python in their first line, their hashes) would differ from host to host.
"""

import email
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from pathlib import Path
from zipfile import BadZipFile

from installer.exceptions import InstallerError
from installer.sources import WheelFile
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from debs.release import Release
from tributary.settings.errors import CommandError, Exit

ROOTS = (
    *("jinja2", "prometheus-client", "pydantic", "pyroute2", "rich", "scapy", "segno", "starlette", "tomli-w"),
    "uvicorn",
)
"""What the modules of parts.MODULES import. The experiments' libraries are not among them."""

_OLDEST_GLIBC = 17  # manylinux_2_17, which is manylinux2014: the oldest that wheels are still made for


@dataclass(frozen=True)
class Wheel:
    """A wheel: its files by their paths, as they lie in the folder that it is unpacked into."""

    name: str
    version: str
    licence: str
    files: Mapping[str, bytes]

    @property
    def tops(self) -> list[str]:
        """What it puts right into the folder: 'rich/*', 'typing_extensions.py'."""
        return sorted({f"{top}/*" if rest else top for top, _, rest in (path.partition("/") for path in self.files)})

    @property
    def about(self) -> str:
        """Its folder of metadata, which has the licence."""
        return next(path.partition("/")[0] for path in self.files if path.endswith(".dist-info/METADATA"))


@dataclass(frozen=True)
class Pin:
    """One entry of the lock: a version, where it holds, and the hashes of all its files."""

    requirement: Requirement
    hashes: tuple[str, ...]

    @property
    def name(self) -> str:
        """As PyPI writes it."""
        return canonicalize_name(self.requirement.name)

    def __str__(self) -> str:
        return f"{self.name}{self.requirement.specifier}"


def pins(lock: str) -> list[Pin]:
    """The entries of a lock as scripts/lock writes it."""
    entries = lock.replace("\\\n", " ").splitlines()
    return [_pin(entry) for entry in entries if entry.strip() and not entry.lstrip().startswith("#")]


def _pin(entry: str) -> Pin:
    requirement, *hashes = entry.split("--hash=")
    return Pin(Requirement(requirement.strip()), tuple(each.strip() for each in hashes))


def environment(release: Release) -> Mapping[str, str]:
    """What markers ask about the target (PEP 508), where it is not as here: CPython on Linux."""
    version = ".".join(map(str, release.suite.python))
    machine = release.architecture.machine
    return {"platform_machine": machine, "python_full_version": f"{version}.0", "python_version": version}


def closure(roots: Iterable[str], requires: Callable[[str], Sequence[str]], target: Mapping[str, str]) -> set[str]:
    """``roots`` and all that they need on ``target``; ``requires`` gives a distribution's Requires-Dist."""
    found: set[str] = set()
    ahead = [canonicalize_name(name) for name in roots]
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            needed = (Requirement(text) for text in requires(name))
            ahead += [canonicalize_name(each.name) for each in needed if _holds(each, target)]
    return found


def selected(lock: str, names: Iterable[str], target: Mapping[str, str]) -> list[Pin]:
    """The pin of each of ``names`` for ``target``, by name; raises CommandError (64) if the lock has none for one."""
    there = {pin.name: pin for pin in pins(lock) if _holds(pin.requirement, target)}
    missing = sorted(set(names) - set(there))
    if missing:
        raise CommandError(Exit.USAGE, f"requirements.lock has no {missing[0]}: scripts/lock writes it anew")
    return [there[name] for name in sorted(names)]


def requirements(chosen: Iterable[Pin]) -> str:
    """What pip takes by --require-hashes."""
    return "".join(" ".join([str(pin), *(f"--hash={each}" for each in pin.hashes)]) + "\n" for pin in chosen)


def _holds(requirement: Requirement, target: Mapping[str, str]) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(dict(target))


def chosen(text: str, release: Release) -> list[Pin]:
    """Those of the lock's ``text`` that ``release`` bundles."""
    target = environment(release)
    return selected(text, closure(ROOTS, lambda name: metadata.requires(name) or [], target), target)


def fetch(pins: Sequence[Pin], release: Release, cache: Path) -> list[Wheel]:
    """The wheels of ``pins``, from ``cache`` if they are there; raises CommandError (69) if pip cannot get them."""
    asked = requirements(pins)
    tags = _tags(release)
    key = hashlib.sha256("\n".join([asked, *tags]).encode()).hexdigest()[:16]
    folder = cache / f"wheels-{release.suite.name}-{release.architecture.name}-{key}"
    if not folder.exists():
        _download(asked, tags, folder)
    return [unpacked(path) for path in sorted(folder.glob("*.whl"))]


def unpacked(path: Path) -> Wheel:
    """A wheel as its author packed it, without what is for a folder ``bin`` or ``share`` (.data, PEP 427).

    Raises CommandError (69) if it is not what its own RECORD says.
    """
    try:
        with WheelFile.open(path) as wheel:
            wheel.validate_record()
            headers = email.message_from_string(wheel.read_dist_info("METADATA"))
            files = dict(sorted((name, stream.read()) for (name, _, _), stream, _ in wheel.get_contents()))
    except (BadZipFile, InstallerError) as error:
        raise CommandError(Exit.UNAVAILABLE, f"{path.name}: no sound wheel: {error}") from error
    misplaced = [name for name in files if ".data/purelib/" in name or ".data/platlib/" in name]
    if misplaced:
        raise CommandError(
            Exit.UNAVAILABLE, f"{path.name}: {misplaced[0]}: modules under .data are not understood here"
        )
    kept = {name: content for name, content in files.items() if ".data/" not in name}
    return Wheel(str(headers["Name"]), str(headers["Version"]), _licence(headers), kept)


def _licence(headers: Message) -> str:
    classifiers = (str(each) for each in headers.get_all("Classifier", []))
    classified = [each.rpartition(":: ")[2] for each in classifiers if each.startswith("License ")]
    return str(headers["License-Expression"] or " and ".join(classified) or headers["License"])


def _tags(release: Release) -> list[str]:
    """What pip takes for the target: it does not work out by itself which older glibc will do."""
    major, minor = release.suite.python
    machine = release.architecture.machine
    platforms = [f"manylinux_2_{old}_{machine}" for old in range(_OLDEST_GLIBC, release.suite.glibc[1] + 1)]
    platforms.append(f"manylinux2014_{machine}")
    options = ["--implementation", "cp", "--python-version", f"{major}.{minor}", "--abi", f"cp{major}{minor}"]
    return options + [word for platform in platforms for word in ("--platform", platform)]


def _download(requirements: str, tags: Sequence[str], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="wheels-partial-") as partial:
        wanted, got = Path(partial) / "requirements.txt", Path(partial) / "got"
        wanted.write_text(requirements)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
        command += ["--no-deps", "--only-binary", ":all:", "--require-hashes", *tags]
        done = subprocess.run([*command, "--dest", got, "--requirement", wanted], stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
            raise CommandError(Exit.UNAVAILABLE, f"pip cannot get the wheels: {said[-1]}")
        got.rename(folder)

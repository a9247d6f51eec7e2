"""Which wheels of requirements.lock a package bundles: those that its parts import, and what these need. Pure.

pip judges markers by the interpreter that it runs on, also when it fetches for another one. Here they are judged by the
target, and pip is told exact versions with their hashes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from debs.release import Release
from tributary.settings.errors import CommandError, Exit


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
    """What markers ask about the target (PEP 508)."""
    version = ".".join(map(str, release.suite.python))
    return {
        "implementation_name": "cpython",
        "os_name": "posix",
        "platform_machine": release.architecture.machine,
        "platform_python_implementation": "CPython",
        "platform_system": "Linux",
        "python_full_version": f"{version}.0",
        "python_version": version,
        "sys_platform": "linux",
        "extra": "",
    }


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

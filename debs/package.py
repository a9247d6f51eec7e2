"""A Debian package as a value: its fields, its files, and what its maintainer scripts have to do."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from debs.release import Release
from debs.wheels import Wheel
from tributary.kernel import low_mark

PYTHON = "usr/lib/tributary/python"
"""Where our modules and the wheels lie: out of the way of Debian's own modules, which may be too old."""
LOW_MARK = low_mark.INSTALLED.name


@dataclass(frozen=True)
class Inputs:
    """All that the packages of one release are made from."""

    release: Release
    checkout: Mapping[str, bytes]
    wheels: Sequence[Wheel]
    programs: Mapping[str, bytes]  # by name, those of debs/program.py and LOW_MARK


@dataclass(frozen=True)
class File:
    """A file in a package: where it lies, without the first slash, and what is in it."""

    path: str
    content: bytes
    mode: int = 0o644


class Upgrade(Enum):
    """What an upgrade does to a service that runs."""

    RESTART = "restart"
    HAND_OVER = "hand over"  # on SIGUSR2 it starts the new program beside itself, and ends with its last connection
    BOOT = "boot"  # it does its work when the machine boots: neither installing nor upgrading starts it
    LEAVE = "leave"  # one that runs stays as it is
    KEEP = "keep"  # it carries connections that a restart would cut: whoever runs the host chooses the time


@dataclass(frozen=True)
class Unit:
    """A systemd unit in a package."""

    name: str
    upgrade: Upgrade = Upgrade.RESTART
    enabled: bool = True


@dataclass(frozen=True)
class Package:
    """One package of a release. Paths of ``conffiles`` and ``leftovers`` begin without a slash, as those of files."""

    name: str
    summary: str
    description: str
    files: tuple[File, ...]
    architecture: str = "all"
    depends: tuple[str, ...] = ()
    recommends: tuple[str, ...] = ()
    suggests: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()
    instances: str | None = None  # of a template unit, as a pattern (systemctl(1)); an upgrade is handed over to them
    group: str | None = None  # a system group that its services are in, made by the first installation
    replaces_unit: str | None = None  # another package's service, whose place this one's takes
    sysctl: tuple[str, ...] = ()  # names of files in usr/lib/sysctl.d
    leftovers: tuple[str, ...] = ()  # what its services write, and their private keys, gone with a purge

    @property
    def conffiles(self) -> tuple[str, ...]:
        """What the administrator may change, and dpkg keeps: all in /etc."""
        return tuple(sorted(file.path for file in self.files if file.path.startswith("etc/")))

    @property
    def kernel_parameters(self) -> tuple[str, ...]:
        """Keys that its files of sysctl.d(5) set."""
        ours = {f"usr/lib/sysctl.d/{name}" for name in self.sysctl}
        texts = (file.content.decode() for file in self.files if file.path in ours)
        return tuple(key for text in texts for key in re.findall(r"^-?([\w./-]+) *=", text, re.MULTILINE))

    @property
    def python(self) -> bool:
        """Whether it has modules, to be compiled when it is installed."""
        return any(file.path.startswith(f"{PYTHON}/") and file.path.endswith(".py") for file in self.files)

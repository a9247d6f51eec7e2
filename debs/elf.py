"""What a program or library asks of the machine that it is loaded on: bytes in, facts out (elf(5))."""

import re
import struct
from dataclasses import dataclass

from debs.release import Release
from tributary.settings.errors import CommandError, Exit

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian: all architectures that we build for
_HEADER = struct.Struct("<16sHHIQQQIHHH")
_PT_INTERP = 3
_SYMBOL_VERSION = re.compile(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\0")


@dataclass(frozen=True)
class Needs:
    """The processor; whether a dynamic linker must load it; the oldest glibc that has its symbols."""

    machine: int
    interpreter: bool
    glibc: tuple[int, int] | None


def needs(data: bytes) -> Needs | None:
    """What ``data`` asks for; None if it is no ELF file of 64 bits, or cut off."""
    if not data.startswith(_MAGIC) or len(data) < _HEADER.size:
        return None
    _, _, machine, _, _, offset, _, _, _, size, count = _HEADER.unpack_from(data)
    if size < 4 or offset + size * count > len(data):
        return None
    types = [struct.unpack_from("<I", data, offset + size * number)[0] for number in range(count)]
    # The names of symbol versions stand in .dynstr. A static program has none: it brings its own C library.
    versions = [(int(major), int(minor)) for major, minor in _SYMBOL_VERSION.findall(data)]
    return Needs(machine, _PT_INTERP in types, max(versions, default=None))


def depends(what: str, data: bytes, release: Release) -> tuple[str, ...]:
    """Depends of a package of ``release`` that has ``data``; raises CommandError (64) if it could not run there."""
    found = needs(data)
    if found is None:
        raise CommandError(Exit.USAGE, f"{what}: not a program: accepted: an ELF file for {release.architecture.name}")
    if found.machine != release.architecture.elf:
        accepted = f"accepted: a program for {release.architecture.name}"
        raise CommandError(Exit.USAGE, f"{what}: made for another processor: {accepted}")
    if found.glibc is None:
        return ()
    wanted = ".".join(map(str, found.glibc))
    if found.glibc > release.suite.glibc:
        raise CommandError(
            Exit.USAGE, f"{what}: needs glibc {wanted}, {release.suite.name} is older: build it statically"
        )
    return (f"libc6 (>= {wanted})", "libgcc-s1")

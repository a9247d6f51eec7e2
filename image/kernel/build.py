"""Debian's kernel source, its configuration with our fragments, and packages: in a Debian system of its own.

linux-source, linux-config -> merge_config.sh -> olddefconfig -> every option kept? -> our patches -> bindeb-pkg
"""

import lzma
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from image.debian import System
from tributary.settings.errors import CommandError, Exit

SUITE, VERSION = "trixie", "6.12"
# One Debian merges for both boards: Kconfig asks each one's compiler what it can do, and pahole for its version.
ARCHITECTURES = "amd64,arm64"
MERGING = (
    *(f"linux-source-{VERSION}", f"linux-config-{VERSION}:amd64", f"linux-config-{VERSION}:arm64"),
    *("bison", "flex", "gcc", "gcc-aarch64-linux-gnu", "libc6-dev:amd64", "libc6-dev:arm64", "make", "pahole"),
    *("patch", "xz-utils"),
)
# What the packages say that they are built with (scripts/package/mkdebian), and openssl, which makes the modules' key.
BUILDING = (
    *("bc", "build-essential", "cpio", "debhelper", "kmod", "libelf-dev", "libssl-dev", "libssl-dev:arm64", "openssl"),
    *("python3", "rsync", "zstd"),
)
_SOURCE = f"linux-source-{VERSION}"
_TREE = f"/usr/src/{_SOURCE}"
# Of 87,000 files, the 3,000 that olddefconfig reads; a tree with all of them gives the same configuration.
KCONFIG = (f"{_SOURCE}/Makefile", f"{_SOURCE}/scripts/*", f"{_SOURCE}/arch/*/Makefile*", "*/Kconfig*")
_SET = re.compile(r"^(CONFIG_\w+)=(.+)$")
_UNSET = re.compile(r"^# (CONFIG_\w+) is not set$")
_COMMENT = re.compile(r"^(#.*)?$")


@dataclass(frozen=True)
class Board:
    """``architecture`` as make has it; ``config`` is Debian's, in linux-config; ``compiler`` goes before gcc."""

    name: str
    architecture: str
    config: str
    compiler: str = ""

    @property
    def make(self) -> list[str]:
        """The words that begin every make for this board."""
        return ["make", "-C", _TREE, f"ARCH={self.architecture}", f"CROSS_COMPILE={self.compiler}"]


BOARDS = {
    "x86": Board("x86", "x86_64", "config.amd64_none_amd64"),
    "rpi": Board("rpi", "arm64", "config.arm64_none_arm64", "aarch64-linux-gnu-"),
}


def read_fragments(folder: Path) -> dict[str, str]:
    """The text of every fragment by its name; raises CommandError (64) for a line that asks for nothing."""
    fragments = {path.name: path.read_text() for path in sorted(folder.glob("*.config"))}
    for name, text in fragments.items():
        check(name, text)
    return fragments


def unpack_source(system: System, only: Sequence[str]) -> None:
    """Debian's source, patches and all; or of it what matches ``only``, which KCONFIG is enough for to merge."""
    chosen = ["--wildcards", *only] if only else []
    system.run(["tar", "--extract", "--directory", "/usr/src", "--file", f"{_TREE}.tar.xz", *chosen])


def read_patches(folder: Path) -> dict[str, str]:
    """The text of every patch by its name, in the order in which they are applied."""
    return {path.name: path.read_text() for path in sorted(folder.glob("*.patch"))}


def apply_patches(system: System, patches: Mapping[str, str]) -> None:
    """Change the unpacked source by ``patches``; raises CommandError (71) for one that does not fit, or is in it."""
    for name, text in patches.items():
        system.path(_TREE).joinpath(name).write_text(text)
        system.run(["patch", "--directory", _TREE, "--strip=1", "--forward", "--input", name])


def merge(system: System, board: Board, fragments: Mapping[str, str]) -> str:
    """The configuration that the kernel's own tools make of Debian's one and ``fragments``, in the unpacked source.

    Raises CommandError (exit 1) if an option was not kept, with all of them in the message.
    """
    tree = system.path(_TREE)
    debians_own = system.path(f"/usr/src/linux-config-{VERSION}/{board.config}.xz")
    tree.joinpath(board.config).write_bytes(lzma.decompress(debians_own.read_bytes()))
    for name, text in fragments.items():
        tree.joinpath(name).write_text(text)
    # -m: no make of its own; -y: what Debian has built in stays so where a module would do.
    merging = ["scripts/kconfig/merge_config.sh", "-m", "-y", board.config, *fragments]
    system.run(["sh", "-c", f'cd {_TREE} && exec "$@"', "merge", *merging])
    system.run([*board.make, "olddefconfig"])
    text = tree.joinpath(".config").read_text()
    if missing := lost({name: parse(each) for name, each in fragments.items()}, parse(text)):
        raise CommandError(Exit.WRONG_RESULT, "; ".join(missing))
    return text


def build(system: System, board: Board, jobs: int, output: Path) -> list[Path]:
    """Packages of the merged kernel in ``output``: its image and its headers; takes an hour or more."""
    packing = ["bindeb-pkg", "LOCALVERSION=-tributary", "KDEB_COMPRESS=zstd"]
    system.run([*board.make, f"-j{jobs}", *packing], {"DEB_BUILD_PROFILES": "pkg.linux-upstream.nokerneldbg"})
    found = [system.path("/usr/src").glob(f"linux-{kind}-*.deb") for kind in ("headers", "image")]
    return [Path(shutil.copy(package, output)) for packages in found for package in packages]


def parse(text: str) -> dict[str, str]:
    """Values by option, "n" for those that are named as not set; from a fragment, or from a whole .config."""
    found = {}
    for line in text.splitlines():
        if match := _SET.match(line):
            found[match[1]] = match[2]
        elif match := _UNSET.match(line):
            found[match[1]] = "n"
    return found


def check(name: str, text: str) -> None:
    """Raise CommandError (64) for a line of the fragment ``name`` that the kernel's tools would silently pass over."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not _SET.match(line) and not _COMMENT.match(line):
            accepted = "CONFIG_NAME=value, '# CONFIG_NAME is not set', or a comment"
            raise CommandError(Exit.USAGE, f"{name}: line {number}: {line!r}: accepted: {accepted}")


def lost(fragments: Mapping[str, Mapping[str, str]], result: Mapping[str, str]) -> list[str]:
    """What the kernel's own tools did not keep, a line for each option; a module that came out as built in is kept."""
    return [
        f"{option}={asked} of {name} came out as {got}"
        for name, options in fragments.items()
        for option, asked in options.items()
        if (got := result.get(option, "n")) != asked and (asked, got) != ("m", "y")
    ]

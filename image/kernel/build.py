"""Debian's kernel source, its configuration with our fragments, and packages: in a Debian system of its own.

linux-source, linux-config -> merge_config.sh -> olddefconfig -> every option kept? -> bindeb-pkg
"""

import lzma
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from image.debian import System
from image.kernel.fragments import Lost, lost, parse
from settings.failure import Exit, Failure

SUITE, VERSION = "trixie", "6.12"
_SOURCE = f"linux-source-{VERSION}"
_TREE = f"/usr/src/{_SOURCE}"
PACKAGES = (
    *(_SOURCE, f"linux-config-{VERSION}"),
    *("bc", "bison", "build-essential", "cpio", "debhelper", "dwarves", "flex", "kmod", "libelf-dev", "libssl-dev"),
    *("python3", "rsync", "xz-utils"),
)


@dataclass(frozen=True)
class Board:
    """``architecture`` as make has it; ``config`` is Debian's, in linux-config; ``compiler`` goes before gcc."""

    name: str
    architecture: str
    config: str
    compiler: str = ""
    packages: tuple[str, ...] = ()

    @property
    def make(self) -> list[str]:
        """The words that begin every make for this board."""
        return ["make", "-C", _TREE, f"ARCH={self.architecture}", f"CROSS_COMPILE={self.compiler}"]


BOARDS = {
    "x86": Board("x86", "x86_64", "config.amd64_none_amd64"),
    "rpi": Board("rpi", "arm64", "config.arm64_none_arm64", "aarch64-linux-gnu-", ("gcc-aarch64-linux-gnu",)),
}


def read_fragments(folder: Path) -> dict[str, str]:
    """The text of every fragment by its name."""
    return {path.name: path.read_text() for path in sorted(folder.glob("*.config"))}


def merge(system: System, board: Board, fragments: Mapping[str, str]) -> str:
    """The configuration that the kernel's own tools make of Debian's one and ``fragments``.

    Raises Failure (exit 1) if an option was not kept, with all of them in the message.
    """
    _unpack_source(system)
    tree = system.path(_TREE)
    tree.joinpath("base.config").write_bytes(_debians_own(system, board))
    for name, text in fragments.items():
        tree.joinpath(name).write_text(text)
    # -m: no make of its own; -y: what Debian has built in stays so where a module would do.
    merging = ["scripts/kconfig/merge_config.sh", "-m", "-y", "base.config", *fragments]
    system.run(["sh", "-c", f'cd {_TREE} && exec "$@"', "merge", *merging])
    system.run([*board.make, "olddefconfig"])
    text = tree.joinpath(".config").read_text()
    _insist(lost({name: parse(each) for name, each in fragments.items()}, parse(text)))
    return text


def build(system: System, board: Board, jobs: int, output: Path) -> list[Path]:
    """Packages of the merged kernel in ``output``; takes an hour or more."""
    system.run([*board.make, f"-j{jobs}", "bindeb-pkg", "LOCALVERSION=-tributary", "KDEB_COMPRESS=zstd"])
    packages = sorted(system.path("/usr/src").glob("linux-*.deb"))
    return [Path(shutil.copy(package, output)) for package in packages]


def _unpack_source(system: System) -> None:
    system.run(["tar", "--extract", "--directory", "/usr/src", "--file", f"{_TREE}.tar.xz"])


def _debians_own(system: System, board: Board) -> bytes:
    packed = system.path(f"/usr/src/linux-config-{VERSION}/{board.config}.xz")
    return lzma.decompress(packed.read_bytes())


def _insist(missing: list[Lost]) -> None:
    if missing:
        raise Failure(Exit.WRONG_RESULT, "; ".join(str(each) for each in missing))

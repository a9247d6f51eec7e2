"""A release made from this checkout, with wheels and programs that stand for the real ones: nothing is fetched."""

import ast
import struct
from pathlib import Path

from debs import checkout, program
from debs.package import LOW_MARK, Inputs
from debs.release import ARCHITECTURES, SUITES, Architecture, Commit, Release
from debs.wheels import Wheel
from tributary.paths import ROOT

GOLDEN = Path(__file__).parent / "golden"
COMMIT = Commit("abc1234def5678901234567890123456789012345", 1_795_280_493)  # 2026-11-21 17:01:33 UTC


def elf(architecture: Architecture, *, interpreter: bool = False, glibc: tuple[str, ...] = ()) -> bytes:
    """An ELF file (elf(5)) with one program header, and the names of symbol versions behind it."""
    header = struct.pack(
        *("<4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 3, architecture.elf), *(1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    )
    segment = struct.pack("<I52x", 3 if interpreter else 1)
    return header + segment + b"".join(f"GLIBC_{version}\0".encode() for version in glibc)


def release(suite: str = "trixie", architecture: str = "amd64", commit: Commit = COMMIT) -> Release:
    return Release("0.1.0", SUITES[suite], ARCHITECTURES[architecture], commit)


def inputs(asked: Release) -> Inputs:
    library = elf(asked.architecture, glibc=("2.2.5", "2.14"))
    files = {
        "quick/__init__.py": b"from quick.fast import go\n",
        "quick/fast.so": library,
        "quick-1.2.dist-info/METADATA": b"Name: quick\nVersion: 1.2\nLicense-Expression: MIT\n",
    }
    wheel = Wheel("quick", "1.2", "MIT", files)
    programs = {name: elf(asked.architecture) for programs in program.ALL for name in programs.names}
    return Inputs(asked, checkout.tracked(), [wheel], programs | {LOW_MARK: b"a program"})


def imported(part: str) -> set[str]:
    """The modules that a part imports anywhere, by their first name."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / part).rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    taken = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in plain | taken}

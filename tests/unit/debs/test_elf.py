"""What a program needs of the machine it is for."""

import shutil
import sys
from pathlib import Path

import pytest

from debs import elf
from debs.release import ARCHITECTURES
from tests.refusals import command_error
from tests.unit.debs import sample
from tributary.settings.errors import Exit

AMD64, ARM64 = ARCHITECTURES["amd64"], ARCHITECTURES["arm64"]


def test_this_python_is_a_program_for_this_processor() -> None:
    found = elf.needs(Path(sys.executable).resolve().read_bytes())
    assert found is not None
    assert found.machine in {AMD64.elf, ARM64.elf}
    assert found.interpreter
    assert found.glibc is not None


@pytest.mark.skipif(shutil.which("ldconfig") is None, reason="no ldconfig")
def test_debians_ldconfig_is_static_and_needs_no_library() -> None:
    found = elf.needs(Path("/sbin/ldconfig").read_bytes())
    assert found is not None
    assert (found.interpreter, found.glibc) == (False, None)


@pytest.mark.parametrize("length", [0, 4, 63, 64, 119])
def test_a_cut_file_is_no_program(length: int) -> None:
    assert elf.needs(sample.elf(AMD64)[:length]) is None


def test_what_a_program_depends_on_is_the_newest_glibc_that_it_names_or_nothing() -> None:
    program = sample.elf(AMD64, interpreter=True, glibc=("2.2.5", "2.34", "2.9"))
    assert elf.depends("x", program, sample.release()) == ("libc6 (>= 2.34)", "libgcc-s1")
    assert elf.depends("x", sample.elf(ARM64), sample.release("bookworm", "arm64")) == ()


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (b"#!/bin/sh\n", "not a program"),
        (sample.elf(ARM64), "made for another processor: accepted: a program for amd64"),
        (sample.elf(AMD64, glibc=("2.38",)), "needs glibc 2.38, bookworm is older"),
    ],
)
def test_what_would_not_run_there_is_refused(program: bytes, why: str) -> None:
    with command_error(Exit.USAGE, f"given: {why}"):
        elf.depends("given", program, sample.release("bookworm"))

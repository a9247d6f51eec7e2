"""The commands that build the converter for another processor; nothing is built."""

import shutil
import subprocess
from pathlib import Path

import pytest

from debs import program
from debs.release import ARCHITECTURES
from tributary.places import ROOT


def test_a_chroot_for_arm64_has_the_cross_compiler_and_that_processors_rust_library() -> None:
    command = program.mmdebstrap(ARCHITECTURES["arm64"], Path("/work folder"))
    assert "--architectures=amd64,arm64" in command
    compilers = "cargo,rustc,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,libstd-rust-dev:arm64,clang,libbpf-dev"
    assert f"--include={compilers}" in command
    folders = " ".join(f"'/work folder/{name}'" for name in ("converter", "debs", "guard", "vendor"))
    assert f"--customize-hook=copy-in {folders} /build" in command
    assert '--customize-hook=chroot "$1" /build/debs/cross aarch64-unknown-linux-gnu' in command


def test_a_chroot_for_amd64_is_made_on_arm64() -> None:
    command = program.mmdebstrap(ARCHITECTURES["amd64"], Path("/work"))
    assert "--architectures=arm64,amd64" in command
    assert any("gcc-x86-64-linux-gnu,libc6-dev-amd64-cross" in word for word in command)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck")
def test_the_step_inside_is_good_shell() -> None:
    subprocess.run(["shellcheck", ROOT / "debs/cross"], check=True)

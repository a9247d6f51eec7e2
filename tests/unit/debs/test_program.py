"""The commands that build the Rust programs for another processor; nothing is built."""

import shutil
import subprocess
import tomllib
from pathlib import Path, PurePosixPath

import pytest

from debs import checkout, program
from debs.release import ARCHITECTURES
from tributary.paths import ROOT

SOURCES = program.sources(checkout.tracked())


def test_a_chroot_for_arm64_has_the_cross_compiler_and_that_processors_rust_library() -> None:
    command = program.mmdebstrap(program.CONVERTER, ARCHITECTURES["arm64"], Path("/work folder"))
    assert "--architectures=amd64,arm64" in command
    compilers = "cargo,rustc,gcc-aarch64-linux-gnu,libc6-dev-arm64-cross,libstd-rust-dev:arm64,clang,libbpf-dev"
    compilers += ",protobuf-compiler,libprotobuf-dev"
    assert f"--include={compilers}" in command
    (brought,) = (word.split("'") for word in command if word.startswith("--customize-hook=copy-in "))
    folders = {name.removeprefix("/work folder/") for name in brought[1::2]}
    assert folders == {"vendor"} | {path.split("/")[0] for path in SOURCES}
    target = "aarch64-unknown-linux-gnu"
    options = "--package=tributary-converter --bins --features=offload"
    assert f'--customize-hook=chroot "$1" /build/debs/cross {target} {options}' in command
    built = f"/build/target/{target}/release/tributary-converter"
    assert f"--customize-hook=copy-out {built} '/work folder'" in command


def test_a_chroot_for_amd64_is_made_on_arm64_and_both_programs_of_the_hand_off_come_out_of_one() -> None:
    command = program.mmdebstrap(program.CONVERTER, ARCHITECTURES["amd64"], Path("/work"))
    assert "--architectures=arm64,amd64" in command
    assert any("gcc-x86-64-linux-gnu,libc6-dev-amd64-cross" in word for word in command)
    command = program.mmdebstrap(program.HANDOFF, ARCHITECTURES["arm64"], Path("/work"))
    folder = "/build/target/aarch64-unknown-linux-gnu/release"
    assert f"--customize-hook=copy-out {folder}/tributary-switch {folder}/tributary-backend /work" in command


def test_every_crate_of_the_workspace_is_among_the_sources() -> None:
    for member in tomllib.loads(SOURCES["Cargo.toml"].decode())["workspace"]["members"]:
        assert f"{member}/Cargo.toml" in SOURCES
    assert "Cargo.lock" in SOURCES


def test_every_crate_that_another_depends_on_by_path_is_among_the_sources() -> None:
    for path in (path for path in SOURCES if path.endswith("/Cargo.toml")):
        dependencies = tomllib.loads(SOURCES[path].decode()).get("dependencies", {})
        for each in dependencies.values():
            if "path" in each:
                crate = (ROOT / PurePosixPath(path).parent / each["path"]).resolve().relative_to(ROOT)
                assert f"{crate}/Cargo.toml" in SOURCES, path


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck")
def test_the_step_inside_is_good_shell() -> None:
    subprocess.run(["shellcheck", ROOT / "debs/cross"], check=True)

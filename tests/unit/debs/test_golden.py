"""Control files and maintainer scripts of Debian 13 on amd64, as text to read, of some packages as what differs from
another one's under their name, and what others have that differs.

To make them anew after a wanted change: REMAKE_GOLDEN=1 scripts/python -m pytest tests/unit/debs/test_golden.py
"""

import shutil
import subprocess
from difflib import unified_diff

import pytest

from debs import parts, render
from debs.package import Inputs, Package
from tests import golden
from tests.unit.debs.sample import GOLDEN, inputs, release

SAMPLES = {"deb12-arm64": inputs(release("bookworm", "arm64")), "deb13-amd64": inputs(release("trixie", "amd64"))}
ALL = {
    f"{package.name}.{name}": (package, SAMPLES[name]) for name in SAMPLES for package in parts.packages(SAMPLES[name])
}
GOLDEN_ONE, OTHER = "deb13-amd64", "deb12-arm64"
NAMES = [package.name for package in parts.packages(SAMPLES[GOLDEN_ONE])]
BASES = {
    **dict.fromkeys(("tributary-console", "tributary-converter", "tributary-router", "tributary-squid"), "throttler"),
    "tributary-gateway": "router",
}
"""The part from whose package each differs little."""
TOLD = (
    ("~deb12", "~deb13"),
    ("\nArchitecture: arm64\n", "\nArchitecture: amd64\n"),
    ("python3 (>= 3.11~), python3 (<< 3.12)", "python3 (>= 3.13~), python3 (<< 3.14)"),
)
"""What the two releases and machines differ in by themselves."""
SOCKETLESS = {
    "-# Enabled by the administrator alone; a purge takes that back.",
    "-deb-systemd-helper update-state tributary-converter.socket >/dev/null || true",
    "-",
    "-    deb-systemd-invoke stop tributary-converter.socket tributary-converter.service || true",
    "+    deb-systemd-invoke stop tributary-converter.service || true",
    "-    deb-systemd-helper purge tributary-converter.socket tributary-converter.service >/dev/null || true",
    "+    deb-systemd-helper purge tributary-converter.service >/dev/null || true",
}
"""Debian 12's systemd cannot give a socket MPTCP: its package has none."""


def text(package: Package, made_of: Inputs) -> str:
    """What dpkg reads and runs of a package, one file after the other."""
    scripts = ((name, render.script(package, name)) for name in render.SCRIPTS)
    files = [
        ("control", render.control(package, made_of.release, kibibytes=1)),
        ("conffiles", "".join(f"/{path}\n" for path in package.conffiles)),
        *scripts,
    ]
    return "".join(f"==> {name} <==\n{content}\n" for name, content in files if content)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEBFULLNAME", "DEBEMAIL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_the_control_files_are_the_golden_ones(name: str) -> None:
    own = text(*ALL[f"{name}.{GOLDEN_ONE}"])
    if base := BASES.get(name):
        part = name.removeprefix("tributary-")
        others = text(*ALL[f"tributary-{base}.{GOLDEN_ONE}"]).replace(f"tributary-{base}", name)
        own = golden.differences(others.replace(f"tributary/{base}", f"tributary/{part}"), own)
    golden.compare(GOLDEN / f"{name}.{GOLDEN_ONE}.{'diff' if base else 'txt'}", own)


@pytest.mark.parametrize("name", NAMES)
def test_another_release_and_machine_differ_in_that_and_in_the_converters_socket(name: str) -> None:
    other = text(*ALL[f"{name}.{OTHER}"])
    for its, told in TOLD:
        other = other.replace(its, told)
    compared = unified_diff(text(*ALL[f"{name}.{GOLDEN_ONE}"]).splitlines(), other.splitlines(), n=0, lineterm="")
    differing = {line for line in compared if not line.startswith(("---", "+++", "@@"))}
    assert differing == (SOCKETLESS if name == "tributary-converter" else set())


def test_no_golden_file_is_without_its_package() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {f"{name}.{GOLDEN_ONE}" for name in NAMES}


@pytest.mark.parametrize("name", ALL)
def test_maintainer_scripts_are_good_shell(name: str) -> None:
    for script in render.SCRIPTS:
        content = render.script(ALL[name][0], script)
        if content:
            subprocess.run(["sh", "-n"], input=content, text=True, check=True)
            if shutil.which("shellcheck"):
                subprocess.run(["shellcheck", "--shell=sh", "-"], input=content, text=True, check=True)


def test_who_answers_is_told_as_to_debians_own_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBFULLNAME", "An Operator")
    monkeypatch.setenv("DEBEMAIL", "packages@isp.example")
    package = parts.packages(SAMPLES["deb13-amd64"])[0]
    assert "\nMaintainer: An Operator <packages@isp.example>\n" in render.control(package, release(), 1)
    assert " -- An Operator <packages@isp.example>  Sat, 21 Nov 2026" in render.changelog(package, release())

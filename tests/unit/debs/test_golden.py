"""Control files and maintainer scripts, as text to read. One of Debian 12 on arm64, one of Debian 13 on amd64.

To make them anew after a wanted change: REMAKE_GOLDEN=1 scripts/python -m pytest tests/unit/debs/test_golden.py
"""

import os
import shutil
import subprocess

import pytest

from debs import parts, render
from debs.package import Inputs, Package
from tests.unit.debs.sample import GOLDEN, inputs, release

SAMPLES = {"deb12-arm64": inputs(release("bookworm", "arm64")), "deb13-amd64": inputs(release("trixie", "amd64"))}
ALL = {
    f"{package.name}.{name}": (package, SAMPLES[name]) for name in SAMPLES for package in parts.packages(SAMPLES[name])
}


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


@pytest.mark.parametrize("name", ALL)
def test_the_control_files_are_the_golden_ones(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("REMAKE_GOLDEN"):
        path.write_text(text(*ALL[name]))
    assert text(*ALL[name]) == path.read_text()


def test_no_golden_file_is_without_its_package() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(ALL)


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

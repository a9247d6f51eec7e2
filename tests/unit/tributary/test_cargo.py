from pathlib import Path

import pytest

from tests.refusals import command_error
from tributary import cargo
from tributary.settings.errors import Exit


@pytest.mark.parametrize(
    ("program", "works"),
    [
        (None, False),
        ("#!/bin/sh\necho 'error: rustup could not choose a version of cargo to run' >&2\nexit 1\n", False),
        ("#!/bin/sh\necho cargo 1.86.0\n", True),
    ],
    ids=["there is none", "rustup's, without a toolchain", "there is one"],
)
def test_cargo_works_if_it_says_its_version(
    program: str | None, works: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if program:
        (tmp_path / "cargo").write_text(program)
        (tmp_path / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cargo.works.__wrapped__() is works


@pytest.mark.parametrize(("released", "folder"), [(False, "bin"), (True, "released")])
def test_without_cargo_the_programs_are_those_that_are_there(
    released: bool, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cargo, "works", lambda: False)
    monkeypatch.setattr(cargo, "CACHE", tmp_path)
    program = tmp_path / folder / "tributary-load"
    with command_error(Exit.UNAVAILABLE, f"{program}: not found, and no cargo to build it with"):
        cargo.build("tributary-load", released=released)
    program.parent.mkdir()
    program.touch()
    assert cargo.build("tributary-load", released=released) == [program]

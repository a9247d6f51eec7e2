import os
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


@pytest.mark.parametrize(("since", "asks"), [(None, True), ("101", True), ("100", False)])
def test_what_was_built_since_then_is_taken_as_it_is(
    since: str | None, asks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cargo, "works", lambda: True)
    monkeypatch.setattr(cargo, "CACHE", tmp_path)
    monkeypatch.setattr(cargo, "_BUILD", "false")
    monkeypatch.delenv("TRIBUTARY_BUILT_SINCE", raising=False)
    if since:
        monkeypatch.setenv("TRIBUTARY_BUILT_SINCE", since)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("tributary-load", "tributary-load.built"):
        (folder / name).touch()
        os.utime(folder / name, (100, 100))
    if asks:
        with command_error(Exit.SYSTEM, "tributary-load: cannot be built: see above"):
            cargo.build("tributary-load")
    else:
        assert cargo.build("tributary-load") == [folder / "tributary-load"]
    with command_error(Exit.SYSTEM, "overlay-paths: cannot be built: see above"):
        cargo.build("overlay-paths")

"""Whether what is written in Rust can be built here."""

from pathlib import Path

import pytest

from tributary import cargo


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

"""Versions of packages, compared by dpkg itself."""

from dataclasses import replace

import pytest

from debs.release import Release, base_version
from image.upgrade.machine import is_older
from tests.refusals import command_error
from tests.unit.debs.sample import COMMIT, release
from tributary.settings.errors import Exit

TAGGED = replace(COMMIT, tags=("v0.1.0",))


@pytest.mark.parametrize(
    ("made", "version"),
    [
        (release(), "0.1.0+git20261121.170133.abc1234-1~deb13"),
        (release("bookworm", commit=TAGGED), "0.1.0-1~deb12"),
        (release(commit=replace(TAGGED, modified=True)), "0.1.0+git20261121.170133.abc1234.modified-1~deb13"),
        # The tag is another version's.
        (release("noble", commit=replace(COMMIT, tags=("v0.2.0",))), "0.1.0+git20261121.170133.abc1234-1~ubuntu24.04"),
    ],
)
def test_a_commit_is_named_by_its_time_and_hash_unless_it_is_tagged(made: Release, version: str) -> None:
    assert made.version == version


def test_a_later_commit_the_next_debians_package_and_a_snapshot_after_a_tag_are_newer() -> None:
    """A commit of the same day whatever its hash."""
    later = replace(COMMIT, hash="0000000", time=COMMIT.time + 60)
    for before, after in (("trixie", later), ("bookworm", COMMIT)):
        assert is_older(release(before).version, release(commit=after).version)
    assert is_older(release(commit=TAGGED).version, release().version)


def test_python_and_rust_must_agree_on_the_version() -> None:
    python, rust = {"project": {"version": "0.1.0"}}, {"workspace": {"package": {"version": "0.2.0"}}}
    with command_error(Exit.USAGE, "says version 0.1.0, Cargo.toml 0.2.0"):
        base_version(python, rust)  # type: ignore[arg-type]

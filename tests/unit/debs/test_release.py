"""Versions of packages, compared by dpkg itself."""

from dataclasses import replace

from debs.release import base_version
from image.upgrade.machine import is_older
from tests.refusals import command_error
from tests.unit.debs.sample import COMMIT, release
from tributary.settings.errors import Exit


def test_a_commit_is_named_by_its_time_and_hash() -> None:
    assert release().version == "0.1.0+git20261121.170133.abc1234-1~deb13"


def test_a_tagged_commit_has_the_version_alone() -> None:
    assert release("bookworm", commit=replace(COMMIT, tags=("v0.1.0",))).version == "0.1.0-1~deb12"


def test_a_changed_checkout_says_so_also_at_a_tag() -> None:
    changed = release(commit=replace(COMMIT, tags=("v0.1.0",), modified=True)).version
    assert changed == "0.1.0+git20261121.170133.abc1234.modified-1~deb13"


def test_another_versions_tag_is_no_release() -> None:
    assert "+git" in release(commit=replace(COMMIT, tags=("v0.2.0",))).version


def test_a_later_commit_of_the_same_day_is_newer_whatever_its_hash() -> None:
    later = replace(COMMIT, hash="0000000", time=COMMIT.time + 60)
    assert is_older(release().version, release(commit=later).version)


def test_the_next_debians_package_is_newer() -> None:
    assert is_older(release("bookworm").version, release("trixie").version)


def test_ubuntus_packages_are_told_from_debians() -> None:
    assert release("noble").version.endswith("-1~ubuntu24.04")


def test_a_snapshot_is_newer_than_the_tag_before_it() -> None:
    assert is_older(release(commit=replace(COMMIT, tags=("v0.1.0",))).version, release().version)


def test_python_and_rust_must_agree_on_the_version() -> None:
    python, rust = {"project": {"version": "0.1.0"}}, {"workspace": {"package": {"version": "0.2.0"}}}
    with command_error(Exit.USAGE, "says version 0.1.0, Cargo.toml 0.2.0"):
        base_version(python, rust)  # type: ignore[arg-type]

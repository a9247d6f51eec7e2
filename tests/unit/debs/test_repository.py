"""Of a repository: where packages lie, and the texts that apt reads."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from debs.release import ARCHITECTURES, SUITES
from debs.repository import pool, publish, texts
from debs.repository.pool import Deb
from tests.unit.debs import sample
from tributary.settings.errors import CommandError, Exit

DATE = datetime(2026, 11, 21, 17, 1, 33, tzinfo=UTC)


def deb(version: str, architecture: str = "amd64") -> Deb:
    return Deb(Path("x.deb"), "tributary-common", version, architecture)


@pytest.mark.parametrize("suite", SUITES)
def test_the_version_of_our_packages_says_their_release(suite: str) -> None:
    version = sample.release(suite).version
    assert deb(version).place == f"pool/{suite}/tributary-common_{version}_amd64.deb"


def test_an_epoch_is_not_in_the_files_name() -> None:
    assert deb("2:1.0-1~deb13", "all").place == "pool/trixie/tributary-common_1.0-1~deb13_all.deb"


def test_a_backports_version_is_not_taken_for_ours() -> None:
    with pytest.raises(CommandError, match=r"version 1\.0-1~bpo12: accepted: one that ends in ~deb12") as refused:
        _ = deb("1.0-1~bpo12").suite
    assert refused.value.code == Exit.BAD_DATA


def test_a_suite_is_for_the_processors_of_its_packages_or_for_all() -> None:
    native = [deb("1-1~deb13", architecture) for architecture in ("arm64", "all")]
    assert pool.architectures(native, ARCHITECTURES) == ["arm64"]
    assert pool.architectures(native[1:], ARCHITECTURES) == ["amd64", "arm64"]


def test_a_release_has_its_date_and_its_end_in_utc() -> None:
    fields = texts.release_fields("trixie", ["amd64"], DATE, datetime(2026, 12, 1, tzinfo=UTC))
    assert fields["Date"] == "Sat, 21 Nov 2026 17:01:33 UTC"
    assert fields["Valid-Until"] == "Tue, 01 Dec 2026 00:00:00 UTC"


def test_a_release_without_an_end_says_nothing_of_one() -> None:
    assert "Valid-Until" not in texts.release_fields("trixie", ["amd64"], DATE, None)


def test_the_sources_have_the_key_with_its_blank_lines_marked() -> None:
    key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDME\n-----END PGP PUBLIC KEY BLOCK-----\n"
    assert (
        texts.sources("noble", "https://packages.example.net", key)
        == """\
Types: deb
URIs: https://packages.example.net
Suites: noble
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDME
 -----END PGP PUBLIC KEY BLOCK-----
"""
    )


def test_the_date_is_that_of_the_environment_or_now() -> None:
    assert publish.now({"SOURCE_DATE_EPOCH": "1795280493"}) == DATE
    assert publish.now({}) > datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("given", ["", "yesterday", "-1", "1.5"])
def test_a_date_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(CommandError, match="accepted: whole seconds since 1970"):
        publish.now({"SOURCE_DATE_EPOCH": given})

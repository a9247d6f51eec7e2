"""Of a repository: where packages lie, and its date."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from debs import repository
from debs.release import SUITES
from debs.repository import Deb
from tests.unit.debs import sample
from tributary.settings.errors import CommandError


def deb(version: str, architecture: str = "amd64") -> Deb:
    return Deb(Path("x.deb"), "tributary-common", version, architecture)


@pytest.mark.parametrize("suite", SUITES)
def test_the_version_of_our_packages_says_their_release(suite: str) -> None:
    version = sample.release(suite).version
    assert deb(version).place == f"pool/{suite}/tributary-common_{version}_amd64.deb"


def test_packages_lie_where_their_version_says_and_a_backports_version_is_not_taken_for_ours() -> None:
    assert deb("2:1.0-1~deb13", "all").place == "pool/trixie/tributary-common_1.0-1~deb13_all.deb"
    with pytest.raises(CommandError, match=r"version 1\.0-1~bpo12: accepted: one that ends in ~deb12"):
        _ = deb("1.0-1~bpo12").suite


def test_the_date_is_that_of_the_environment_or_now() -> None:
    assert repository.now({"SOURCE_DATE_EPOCH": "1795280493"}) == datetime(2026, 11, 21, 17, 1, 33, tzinfo=UTC)
    assert repository.now({}) > datetime(2026, 1, 1, tzinfo=UTC)
    for given in ("", "yesterday", "-1", "1.5"):
        with pytest.raises(CommandError, match="accepted: whole seconds since 1970"):
            repository.now({"SOURCE_DATE_EPOCH": given})

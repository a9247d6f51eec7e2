"""A repository of dummy packages, and two keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.repository.machine import LONG_AGO, Apt, Keys, publish
from tests.debs import dummies
from tests.netns.world import mark_below, needs


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_below(__file__, items, needs("apt-get", "apt-ftparchive", "dpkg-deb", "gpg"))


@pytest.fixture(scope="module")
def keys() -> Iterator[Keys]:
    with dummies.keyring() as keyring:
        one, other = (keyring.new(name, LONG_AGO) for name in ("one", "other"))
        yield Keys(keyring, one, other, keyring.exported(one, keyring.home / "one.asc"))


@pytest.fixture(autouse=True)
def users_keyring(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNUPGHOME", str(keys.keyring.home))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dummies.packages(tmp_path_factory.mktemp("debs") / "1.0")


@pytest.fixture
def repository(tmp_path: Path, packages: Path, keys: Keys) -> Path:
    publish(tmp_path / "repository", packages, keys.one)
    return tmp_path / "repository"


@pytest.fixture
def apt(tmp_path: Path) -> Apt:
    return Apt(tmp_path / "root")

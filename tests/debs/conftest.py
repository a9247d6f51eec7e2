"""What the tests in this folder need: root, for chroots, mmdebstrap, to make them, and each release only once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from debs.release import SUITES
from tests.debs.chroot import Chroot, unpacked
from tests.debs.world import Made, make
from tests.netns.world import mark_below, needs, needs_root


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # The first time a Debian is made, and the converter built.
    mark_below(__file__, items, needs_root, needs("mmdebstrap"), pytest.mark.timeout(1800))


@pytest.fixture(scope="session", params=SUITES)
def suite(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def work(suite: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(suite)


@pytest.fixture(scope="session")
def made(suite: str, work: Path) -> Made:
    return make(suite, work)


@pytest.fixture(scope="session")
def pristine(suite: str, work: Path) -> Iterator[Chroot]:
    """The release with all that our packages depend on, and none of ours."""
    with unpacked(suite, work) as chroot:
        yield chroot


@pytest.fixture(scope="session")
def installed(pristine: Chroot, made: Made, work: Path) -> Iterator[Chroot]:
    """All packages installed for the first time; to be looked at, not changed."""
    with pristine.copy(work / "installed") as chroot:
        chroot.install(made.now)
        yield chroot


@pytest.fixture
def debian(installed: Chroot, tmp_path: Path) -> Iterator[Chroot]:
    """The same, to be changed."""
    with installed.copy(tmp_path / "debian") as chroot:
        yield chroot

"""What the tests in this folder need, and the images, built once in the cache as scripts/build-image builds them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from experiments.cache import CACHE
from image.build import order, tools
from image.build.boards import BOARDS, Role
from image.build.watch import Text
from settings.failure import Failure

Build = Callable[[str, Role], Path]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    marks = (
        pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
        # An arm64 image takes an hour to build, by emulation.
        pytest.mark.timeout(7200),
    )
    for item in items:
        if str(item.path).startswith(here):
            for mark in marks:
                item.add_marker(mark)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Gives the image for a board and a role, packed."""
    made: dict[tuple[str, Role], Path] = {}
    folder = tmp_path_factory.mktemp("images", numbered=True)

    def once(board: str, role: Role) -> Path:
        if (board, role) not in made:
            try:
                tools.require()
            except Failure as missing:
                pytest.skip(str(missing))
            making = order.Making.of(order.Order(BOARDS[board], role, folder, CACHE / "image"))
            made[board, role] = order.build(making, Text())[-1]
        return made[board, role]

    return once

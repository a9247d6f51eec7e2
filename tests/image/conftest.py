"""What the tests in this folder need, and the images, built once in the cache as scripts/build-image builds them."""

from pathlib import Path
from typing import Any, Protocol

import pytest

from image.make import command, order
from image.make.boards import BOARDS, Role
from image.make.bundle import Signing
from image.progress import Text
from tests.image.machine import SETTINGS, Medium
from tests.netns.world import mark_below, needs_root
from tributary.paths import CACHE
from tributary.settings.errors import CommandError


class Build(Protocol):
    """Gives the image for a board and a role, packed; with ``signing`` beside a bundle, which it takes."""

    def __call__(self, board: str, role: Role, signing: Signing | None = None) -> Path: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # An arm64 image takes an hour to build, by emulation.
    mark_below(__file__, items, needs_root, pytest.mark.timeout(7200))


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    made: dict[tuple[str, Role, Signing | None], Path] = {}
    folder = tmp_path_factory.mktemp("images", numbered=True)

    def once(board: str, role: Role, signing: Signing | None = None) -> Path:
        asked = (board, role, signing)
        if asked not in made:
            output = folder / ("signed" if signing else "unsigned")
            made[asked] = _built(order.Order(BOARDS[board], role, output, CACHE / "image", **_signed(signing)))
        return made[asked]

    return once


@pytest.fixture(scope="module")
def medium(request: pytest.FixtureRequest, build: Build, tmp_path_factory: pytest.TempPathFactory) -> Medium:
    """A gateway's image for the module's BOARD, on a disk of the module's own."""
    return Medium.of(
        build(request.module.BOARD, Role.GATEWAY), tmp_path_factory.mktemp("disk", numbered=True), SETTINGS
    )


def _signed(signing: Signing | None) -> dict[str, Any]:
    return {"certificate": signing.certificate, "key": signing.key} if signing else {}


def _built(asked: order.Order) -> Path:
    """As a user builds it: with the newest packages; what differs from the lock is in the output."""
    try:
        command.require()
    except CommandError as missing:
        pytest.skip(str(missing))
    return order.build(order.Making.of(asked), Text("build-image"))[-1]

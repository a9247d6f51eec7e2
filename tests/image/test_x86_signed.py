"""The x86 image of a gateway as `scripts/build-image --certificate --key` makes it, upgraded by the bundle beside it.

It starts three times by UEFI, which takes 15 minutes, and is built with a key of its own, which puts the image
without one out of the cache: it runs by its path alone.
"""

from pathlib import Path

import pytest

from image.make.boards import Role
from tests.image.conftest import Build
from tests.image.machine import OVMF, SETTINGS, Medium, boot_pc, section
from tests.image.upgrading import TOOLS, booted, disk_of, signing
from tests.netns.world import needs

pytestmark = [
    needs("qemu-system-x86_64", *TOOLS),
    pytest.mark.skipif(not OVMF[0].exists(), reason="no OVMF (package ovmf)"),
]

SECONDS = 1500


@pytest.fixture(scope="module")
def image(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("x86", Role.GATEWAY, signing(tmp_path_factory.mktemp("keys", numbered=True), "ours"))


@pytest.fixture(scope="module")
def medium(image: Path, tmp_path_factory: pytest.TempPathFactory) -> Medium:
    return Medium.of(image, tmp_path_factory.mktemp("signed", numbered=True), SETTINGS)


@pytest.fixture(scope="module")
def starts(image: Path, medium: Medium) -> list[str]:
    """What the self-test said at each start."""
    bundles = medium.path.with_name("bundles")
    bundles.mkdir()
    (made,) = image.parent.glob("*.raucb")
    (bundles / "good.raucb").hardlink_to(made)
    asked = (("system", "slots", "upgrade"), ("system", "slots", "back"), ("system", "slots"))
    other = disk_of(bundles)
    return [boot_pc(medium, *each, seconds=SECONDS, uefi=True, other=other) for each in asked]


def test_the_image_takes_the_bundle_that_was_built_with_it(medium: Medium, starts: list[str]) -> None:
    assert section(starts[0], "system")["firmware"] == "UEFI"
    assert booted(medium, section(starts[0], "slots")) == "A"
    found = section(starts[0], "upgrade")
    assert found["install"]["code"] == 0, found
    assert found["after"]["next"] == "B"


def test_what_was_upgraded_starts_by_uefi_and_stays(medium: Medium, starts: list[str]) -> None:
    system, found = section(starts[1], "system"), section(starts[1], "slots")
    assert (system["state"], system["failed"], system["hostname"]) == ("running", [], "attic")
    assert booted(medium, found) == "B"
    assert (found["status"]["running"]["on_trial"], found["status"]["next"]) == (False, "B")
    assert found["host_keys"] == section(starts[0], "slots")["host_keys"]


def test_the_way_back_is_by_uefi_as_well(medium: Medium, starts: list[str]) -> None:
    assert section(starts[1], "back")["back"]["code"] == 0
    system, found = section(starts[2], "system"), section(starts[2], "slots")
    assert (system["firmware"], system["state"], system["failed"]) == ("UEFI", "running", [])
    assert booted(medium, found) == "A"

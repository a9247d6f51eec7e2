"""The Raspberry Pi's image of a gateway, upgraded: a start that dies, a good one, the way back, a broken version.

QEMU has no firmware of the Raspberry Pi. What it does is small, and a function of the test does it: it reads
config.txt, and starts what lies in the folder that os_prefix names, with the command line there (boot_virt in
tests/image/machine.py). So it is shown what the boot partition says at each start, not that a board does that.

It starts seven times, by emulation, which takes half an hour: it runs by its path alone.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from image.check.on_rpi import settings
from tests.image.machine import Medium, boot_virt, section
from tests.image.upgrading import TOOLS, Bundles, booted, disk_of
from tests.netns.world import needs

pytestmark = needs("qemu-system-aarch64", *TOOLS)

BOARD = "rpi"
SECONDS = 1800
DIES = "init=/usr/bin/false"
"""The initramfs comes to its end, the system does not begin, the kernel panics and starts the machine anew."""


@dataclass(frozen=True)
class Start:
    """What the self-test said, and the boot partition afterwards: its slots in config.txt and back.txt."""

    report: str
    first: str
    back: str
    files: frozenset[str]


@pytest.fixture(scope="module")
def other(medium: Medium) -> Path:
    """A disk with bundles; the image trusts who signed them."""
    bundles = Bundles.trusted(medium, "tributary-gateway-rpi")
    bundles.make("good")
    bundles.break_()
    return disk_of(bundles.folder)


@pytest.fixture(scope="module")
def starts(medium: Medium, other: Path) -> list[Start]:
    asked: list[tuple[tuple[str, ...], str]] = [
        (("slots", "upgrade"), ""),
        ((), DIES),
        (("slots", "back"), ""),
        (("system", "slots", "kernel", "back"), ""),
        (("system", "slots", "broken"), ""),
        ((), ""),
        (("slots",), ""),
    ]
    return [started(medium, other, sections, also) for sections, also in asked]


def started(medium: Medium, other: Path, sections: tuple[str, ...], also: str) -> Start:
    report = boot_virt(medium, *sections, seconds=SECONDS, other=other, also=also)
    names = medium.boot.names()
    first, back = (
        settings(medium.boot.read(name).decode())["os_prefix"] if name in names else ""
        for name in ("config.txt", "back.txt")
    )
    return Start(report, first, back, names)


def test_a_new_card_starts_slot_a(medium: Medium, starts: list[Start]) -> None:
    found = section(starts[0].report, "slots")
    assert booted(medium, found) == "A"
    status = found["status"]
    assert (status["running"]["on_trial"], status["other"]["version"], status["next"]) == (False, "", "A")
    assert {"config: os_prefix=a/", "slots: A good", "slots: B bad"} <= set(found["loader"])


def test_a_new_version_is_to_be_tried_once(starts: list[Start]) -> None:
    found = section(starts[0].report, "upgrade")
    assert found["install"]["code"] == 0, found
    assert found["after"]["next"] == "B"
    assert (starts[0].first, starts[0].back) == ("b/", "a/")
    assert {"b/vmlinuz", "b/initrd.img", "b/cmdline.txt", "b/bcm2711-rpi-4-b.dtb"} <= starts[0].files


def test_when_it_dies_behind_its_initramfs_the_version_before_is_back(medium: Medium, starts: list[Start]) -> None:
    assert starts[1].report == ""
    assert starts[1].first == "a/"
    found = section(starts[2].report, "slots")
    assert booted(medium, found) == "A"
    assert (found["status"]["running"]["on_trial"], found["status"]["next"]) == (False, "A")
    assert not [line for line in found["loader"] if line.startswith("back:")]


def test_it_may_be_tried_again_and_stays_when_it_is_good(medium: Medium, starts: list[Start]) -> None:
    assert section(starts[2].report, "back")["back"]["code"] == 0
    assert (starts[2].first, starts[2].back) == ("b/", "a/")
    system, found = section(starts[3].report, "system"), section(starts[3].report, "slots")
    assert booted(medium, found) == "B"
    assert (system["state"], system["failed"], system["hostname"]) == ("running", [], "attic")
    assert (found["status"]["running"]["on_trial"], found["status"]["next"]) == (False, "B")
    assert {"config: os_prefix=b/", "slots: A good", "slots: B good"} <= set(found["loader"])
    assert found["host_keys"] == section(starts[0].report, "slots")["host_keys"]


def test_a_new_kernel_goes_into_the_folder_of_the_slot_that_runs(starts: list[Start]) -> None:
    found = section(starts[3].report, "kernel")
    assert (found["taken"], found["astray"]) == (["b"], [])
    assert found["loader"] == section(starts[3].report, "slots")["loader"]


def test_the_way_back_is_the_old_version(medium: Medium, starts: list[Start]) -> None:
    assert section(starts[3].report, "back")["back"]["code"] == 0
    before, system, found = (
        section(starts[3].report, "system"),
        section(starts[4].report, "system"),
        section(starts[4].report, "slots"),
    )
    assert booted(medium, found) == "A"
    assert (system["state"], system["failed"], system["machine_id"]) == ("running", [], before["machine_id"])
    assert found["status"]["next"] == "A"


def test_a_version_that_is_broken_is_given_up(medium: Medium, starts: list[Start]) -> None:
    assert section(starts[4].report, "broken")["install"]["code"] == 0
    assert (starts[4].first, starts[4].back) == ("b/", "a/")
    assert "END" not in starts[5].report, "slot B ended before it was asked anything"
    assert (starts[5].first, starts[5].back) == ("a/", "")
    found = section(starts[6].report, "slots")
    assert booted(medium, found) == "A"
    assert "tributary-converter.service" in found["status"]["other"]["given_up"]
    assert "slots: B bad" in found["loader"]
    assert found["hand_made"] == "# by hand\n"
    assert found["state"] == "counted\n"

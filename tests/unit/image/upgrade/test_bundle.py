"""Which bundles a box takes, by what RAUC says of them and of its slots."""

from typing import Any

import pytest

from image.upgrade.bundle import Bundle, Slot, Slots, insist
from image.upgrade.machine import is_older
from tests.refusals import command_error
from tributary.settings.errors import Exit

# As RAUC 1.13 prints it.
INFO = {
    "compatible": "tributary-gateway-x86",
    "version": "0.2.0-1~deb13",
    "description": None,
    "build": None,
    "hooks": [],
    "images": [{"root": {"filename": "root.ext4", "size": 2147483648, "hooks": []}}],
}


def status(*, booted: str = "root.0", primary: str | None = "root.0", other: str = "bad") -> dict[str, Any]:
    def slot(name: str, bootname: str, device: str) -> dict[str, Any]:
        runs = name == booted
        facts = {"class": "root", "device": device, "type": "ext4", "bootname": bootname, "parent": None}
        return {name: facts | {"state": "booted" if runs else "inactive", "boot_status": "good" if runs else other}}

    return {
        "compatible": "tributary-gateway-x86",
        "variant": "",
        "booted": "A",
        "boot_primary": primary,
        "slots": [slot("root.1", "B", "/dev/tributary/root-b"), slot("root.0", "A", "/dev/tributary/root-a")],
    }


def test_slots_are_those_of_rauc() -> None:
    found = Slots.of(status())
    assert found.running == Slot("A", "/dev/tributary/root-a", runs=True, good=True)
    assert found.other == Slot("B", "/dev/tributary/root-b", runs=False, good=False)
    assert found.first == "A"
    assert Slots.of(status(primary="root.1", other="good")).first == "B"
    assert Slots.of(status(primary=None)).first == ""


def test_a_system_that_was_started_from_neither_slot_is_refused() -> None:
    with command_error(Exit.UNAVAILABLE, "not started from one of two slots"):
        Slots.of(status(booted="none"))


@pytest.mark.parametrize(("version", "allow_older"), [
    ("0.2.0-1~deb13", False),
    ("0.1.0-1~deb13", False),
    ("0.1.0~rc1-1~deb13", True),
])  # fmt: skip
def test_what_is_for_this_image_and_no_older_is_taken(version: str, allow_older: bool) -> None:
    found = Bundle.of(INFO | {"version": version})
    insist(found, "x.raucb", Slots.of(status()), "0.1.0-1~deb13", is_older, allow_older=allow_older)


@pytest.mark.parametrize(("changes", "words"), [
    (
        {"compatible": "tributary-router-x86"},
        "x.raucb: it is for tributary-router-x86: accepted: for tributary-gateway-x86",
    ),
    ({"version": "0.1.0~rc1-1~deb13"}, "x.raucb: version 0.1.0~rc1-1~deb13 is older than 0.1.0-1~deb13, which runs"),
    ({"version": None}, "x.raucb: it has no version"),
])  # fmt: skip
def test_others_are_refused_with_the_reason(changes: dict[str, str | None], words: str) -> None:
    found = Bundle.of(INFO | changes)
    with command_error(Exit.BAD_DATA, begins=words):
        insist(found, "x.raucb", Slots.of(status()), "0.1.0-1~deb13", is_older, allow_older=False)

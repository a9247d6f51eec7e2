"""The x86 image of a gateway, upgraded in place: refused bundles, one that is broken, one that is good, the way back.

It starts five times, which takes half an hour: it runs by its path alone.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.image.machine import Medium, boot_pc, section
from tests.image.upgrading import TOOLS, Bundles, booted, disk_of, signing
from tests.netns.world import needs

pytestmark = needs("qemu-system-x86_64", *TOOLS)

BOARD = "x86"
EARLIER = "0.0.1-1"
SECONDS = 1500


@pytest.fixture(scope="module")
def other(medium: Medium) -> Path:
    """A disk with bundles; the image trusts those who signed the good ones."""
    bundles = Bundles.trusted(medium, "tributary-gateway-x86")
    bundles.make("good")
    bundles.refuse("stranger", by=signing(medium.path.parent, "others"))
    bundles.refuse("role", compatible="tributary-router-x86")
    bundles.refuse("older", version=EARLIER)
    bundles.break_()
    damaged = (bundles.folder / "refused-older.raucb").read_bytes()
    (bundles.folder / "refused-damaged.raucb").write_bytes(damaged[:1000])
    return disk_of(bundles.folder)


@pytest.fixture(scope="module")
def starts(medium: Medium, other: Path) -> list[str]:
    """What the self-test said at each start."""
    asked: list[tuple[str, ...]] = [
        ("slots", "refusals", "broken"),
        (),
        ("slots", "upgrade"),
        ("system", "slots", "back"),
    ]
    return [boot_pc(medium, *each, seconds=SECONDS, other=other) for each in (*asked, ("system", "slots"))]


@pytest.fixture(scope="module")
def first(starts: list[str]) -> dict[str, Any]:
    return section(starts[0], "slots")


def test_a_new_disk_starts_slot_a_and_has_none_other(medium: Medium, first: dict[str, Any]) -> None:
    assert booted(medium, first) == "A"
    status = first["status"]
    assert (status["running"]["on_trial"], status["other"]["version"], status["next"]) == (False, "", "A")
    assert {"ORDER=A B", "A_OK=1", "A_TRY=0", "B_OK=0"} <= set(first["loader"])


@pytest.mark.parametrize(("name", "words"), [
    ("refused-stranger", "not signed by anyone whom this image trusts"),
    ("refused-role", "it is for tributary-router-x86: accepted: for tributary-gateway-x86"),
    ("refused-older", "version 0.0.1-1 is older than"),
    ("refused-damaged", "refused-damaged.raucb"),
])  # fmt: skip
def test_what_this_box_may_not_take_is_refused_in_clear_words(starts: list[str], name: str, words: str) -> None:
    found = section(starts[0], "refusals")
    said = found["refused"][name]
    assert (said["code"], words in said["err"]) == (65, True), said
    assert len(said["err"].splitlines()) == 1
    assert found["status"]["other"]["version"] == ""


def test_what_is_not_there_is_said(starts: list[str]) -> None:
    found = section(starts[0], "refusals")
    assert found["missing"]["code"] == 66
    assert found["back"]["code"] == 69
    assert "there is no way back before the first upgrade" in found["back"]["err"]
    assert (found["older"]["code"], f"accepted: version {EARLIER}" in found["older"]["out"]) == (0, True)


def test_a_version_that_is_broken_is_tried_and_given_up_by_itself(medium: Medium, starts: list[str]) -> None:
    begun = section(starts[0], "broken")
    assert (begun["check"]["code"], begun["install"]["code"]) == (0, 0), begun
    assert {"copy /etc/machine-id into it", "copy /etc/tributary/by-hand.toml into it"} <= set(
        begun["ahead"]["out"].splitlines()
    )
    assert begun["after"]["next"] == "B"
    assert "END" not in starts[1], "slot B ended before it was asked anything"
    found = section(starts[2], "slots")
    assert booted(medium, found) == "A"
    assert "tributary-converter.service" in found["status"]["other"]["given_up"]
    assert found["status"]["next"] == "A"
    assert found["boots"] == 3  # both write one journal


def test_a_good_version_starts_with_the_settings_and_stays(
    medium: Medium, starts: list[str], first: dict[str, Any]
) -> None:
    assert section(starts[2], "upgrade")["install"]["code"] == 0, section(starts[2], "upgrade")
    system, found = section(starts[3], "system"), section(starts[3], "slots")
    assert booted(medium, found) == "B"
    assert (system["state"], system["failed"], system["hostname"]) == ("running", [], "attic")
    assert (found["status"]["running"]["on_trial"], found["status"]["next"]) == (False, "B")
    assert {"ORDER=B A", "B_OK=1", "B_TRY=0"} <= set(found["loader"])
    assert found["host_keys"] == first["host_keys"]
    assert (first["hand_made"], found["hand_made"]) == ("", "# by hand\n")
    assert found["state"] == "counted\n"


def test_the_way_back_is_the_old_version_with_what_is_shared(medium: Medium, starts: list[str]) -> None:
    assert section(starts[3], "back")["back"]["code"] == 0
    before, system, found = section(starts[3], "system"), section(starts[4], "system"), section(starts[4], "slots")
    assert booted(medium, found) == "A"
    assert (system["state"], system["failed"], system["machine_id"]) == ("running", [], before["machine_id"])
    assert found["state"] == "counted\n"
    assert found["status"]["other"]["version"] != ""

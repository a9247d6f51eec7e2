"""The x86 image of a gateway, upgraded in place: refused bundles, one that is broken, one that is good, the way back.

It starts five times, which takes half an hour: it runs by its path alone.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from image.check import tables
from image.make import bundle
from image.make.boards import Role
from image.make.bundle import Signing
from image.make.command import Runner
from image.make.layout import Partition
from tests.image.conftest import Build
from tests.image.machine import Medium, boot_pc, section
from tests.unit.image.miniature import Quiet

TOOLS = ("qemu-system-x86_64", "rauc", "mksquashfs", "openssl", "debugfs", "mkfs.ext4")
missing = [tool for tool in TOOLS if shutil.which(tool) is None]
pytestmark = pytest.mark.skipif(bool(missing), reason=f"missing: {', '.join(missing)}")

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f somebody@laptop"
SETTINGS = f'hostname = "attic"\nssh_keys = ["{KEY}"]\nclient_networks = ["10.0.0.0/8"]\n'
COMPATIBLE = "tributary-gateway-x86"
LATER, EARLIER = "9999-1", "0.0.1-1"
SECONDS = 1500


def signing(folder: Path, name: str) -> Signing:
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    making = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9000", "-subj", f"/CN={name}"]
    subprocess.run([*making, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return Signing(certificate, str(key))


def change(image: Path, place: tables.Partition, request: str) -> None:
    """Change the ext4 at ``place`` of ``image`` by debugfs(8), which says what is wrong and ends with 0."""
    command = ["debugfs", "-w", "-R", request, f"{image}?offset={place.start}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(done.stderr.splitlines()) == 1, done.stderr  # its version


class Bundles:
    """Makes bundles from an image's first root."""

    def __init__(self, medium: Medium, folder: Path) -> None:
        self.medium, self.folder = medium, folder
        self.runner = Runner(folder.parent / "bundles.log", Quiet())
        folder.mkdir()

    def make(
        self, name: str, by: Signing, compatible: str = COMPATIBLE, version: str = LATER, small: bool = False
    ) -> None:
        """``small``: with a part of the root, which is refused before anybody looks at it."""
        root = self.medium.roots[0]
        place = Partition(root.start, 8 << 20 if small else root.size, "", "")
        text = bundle.manifest(compatible, version)
        bundle.make(self.medium.path, place, text, by, self.folder / f"{name}.raucb", self.runner)


@pytest.fixture(scope="module")
def medium(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Medium:
    return Medium.of(build("x86", Role.GATEWAY), tmp_path_factory.mktemp("upgrade", numbered=True), SETTINGS)


@pytest.fixture(scope="module")
def other(medium: Medium) -> Path:
    """A disk with bundles; the image trusts those who signed the good ones."""
    folder = medium.path.parent
    ours, others = signing(folder, "ours"), signing(folder, "others")
    root = medium.roots[0]
    change(medium.path, root, f"write {ours.certificate} /etc/rauc/keyring.pem")
    bundles = Bundles(medium, folder / "bundles")
    bundles.make("good", ours)
    bundles.make("refused-stranger", others, small=True)
    bundles.make("refused-role", ours, compatible="tributary-cpe-x86", small=True)
    bundles.make("refused-older", ours, version=EARLIER, small=True)
    plain = medium.path.with_name("broken.img")
    subprocess.run(["cp", "--sparse=always", medium.path, plain], check=True)
    change(plain, root, "rm /usr/bin/tributary-converter")
    Bundles(Medium(plain), folder / "broken").make("broken", ours)
    plain.unlink()
    (folder / "broken/broken.raucb").rename(folder / "bundles/broken.raucb")
    damaged = (folder / "bundles/refused-older.raucb").read_bytes()
    (folder / "bundles/refused-damaged.raucb").write_bytes(damaged[:1000])
    made = folder / "bundles.img"
    subprocess.run(["mkfs.ext4", "-q", "-F", "-L", "bundles", "-d", folder / "bundles", made, "1200M"], check=True)
    return made


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


def booted(medium: Medium, found: dict[str, Any]) -> str:
    names = {f"root=PARTUUID={place.name}": slot for place, slot in zip(medium.roots, "AB", strict=True)}
    (slot,) = (names[word] for word in found["command"].split() if word in names)
    assert f"rauc.slot={slot}" in found["command"].split()
    assert found["status"]["running"]["slot"] == slot
    return slot


def test_a_new_disk_starts_slot_a_and_has_none_other(medium: Medium, first: dict[str, Any]) -> None:
    assert booted(medium, first) == "A"
    status = first["status"]
    assert (status["running"]["on_trial"], status["other"]["version"], status["next"]) == (False, "", "A")
    assert {"ORDER=A B", "A_OK=1", "A_TRY=0", "B_OK=0"} <= set(first["environment"])


@pytest.mark.parametrize(("name", "words"), [
    ("refused-stranger", "not signed by anyone whom this image trusts"),
    ("refused-role", "it is for tributary-cpe-x86: accepted: for tributary-gateway-x86"),
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
    assert {"ORDER=B A", "B_OK=1", "B_TRY=0"} <= set(found["environment"])
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

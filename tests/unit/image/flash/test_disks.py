"""May this disk be written? By rows as lsblk gives them."""

from typing import Any

import pytest

from image.flash.disks import Device, refusal
from tributary.settings.errors import Exit

GB = 10**9
BUSES = {"usb": "block:scsi:usb:pci", "sata": "block:scsi:pci", "nvme": "block:nvme:pci", "loop": "block"}


def row(name: str = "sdb", tran: str | None = "usb", kind: str = "disk", **others: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("pkname", "vendor", "model", "label", "fstype"))
    about = {"path": f"/dev/{name}", "maj:min": "999:9", "type": kind, "size": 32 * GB, "log-sec": 512, "tran": tran}
    flags = {"rm": False, "ro": False, "mountpoints": [None], "subsystems": BUSES[tran or "loop"]}
    return {**empty, "name": name, **about, **flags, **others}


def disk(*children: dict[str, Any], **others: Any) -> Device:
    return Device({**row(**others), "children": list(children)})


def part(number: int, *points: str, **others: Any) -> dict[str, Any]:
    return row(f"sdb{number}", kind="part", mountpoints=[*points, None], **others)


@pytest.mark.parametrize("device", [disk(), disk(tran="sata", rm=True)])
def test_sticks_and_removable_disks_may_be_written(device: Device) -> None:
    assert refusal(device, force=False, needed=GB) is None


@pytest.mark.parametrize("device", [disk(tran="sata"), disk(tran="nvme"), disk(tran=None, kind="loop")])
def test_what_is_built_in_is_written_by_force_alone(device: Device) -> None:
    found = refusal(device, force=False)
    assert found and found.code is Exit.USAGE and f"not removable (bus {device.bus})" in str(found)
    assert refusal(device, force=True) is None


def test_an_mmc_that_does_not_say_that_it_is_a_card_is_soldered_in() -> None:
    device = disk(subsystems="block:mmc:mmc_host:platform", rm=True)
    assert device.bus == "mmc"
    assert refusal(device, force=False) is not None


CRYPT = row("dm-0", tran=None, kind="crypt", children=[row("dm-1", tran=None, kind="lvm", mountpoints=["/"])])


@pytest.mark.parametrize(
    ("device", "code", "reason"),
    [
        (
            disk(part(1, "/media/my card")),
            Exit.IN_USE,
            "it is mounted (/dev/sdb1 at /media/my card): `umount /media/my card` first",
        ),
        (disk(mountpoints=[f"/mnt/{n}" for n in range(5)]), Exit.IN_USE, "/dev/sdb at /mnt/2 and 2 more"),
        (disk(part(2, "[SWAP]")), Exit.IN_USE, "it is used as swap (/dev/sdb2): `swapoff /dev/sdb2` first"),
        (disk(part(1, "/mnt", "/")), Exit.USAGE, "the system runs from it (/ is on /dev/sdb1)"),
        (disk(part(1, "/run/live/medium")), Exit.USAGE, "the system runs from it"),
        (disk(part(3, children=[CRYPT])), Exit.USAGE, "(/ is on /dev/dm-1)"),
        (disk(row("md127", kind="raid1", children=[part(1, "/")])), Exit.USAGE, "the system runs from it"),
        (disk(part(1, children=[row("dm-0", kind="crypt")])), Exit.IN_USE, "it is part of /dev/dm-0 (crypt)"),
        (disk(size=0, rm=True), Exit.UNAVAILABLE, "there is no card in it"),
        (disk(ro=True), Exit.UNAVAILABLE, "lock switch"),
        (disk(**{"log-sec": 4096}), Exit.USAGE, "its sectors have 4096 bytes"),
        (disk(size=2**30), Exit.USAGE, "it has 1.07 GB, and the image needs 1.07 GB"),
    ],
)
def test_a_disk_is_refused_also_by_force(device: Device, code: Exit, reason: str) -> None:
    found = refusal(device, force=True, needed=2**30 + 512)
    assert found and found.code is code
    assert reason in str(found)


def test_a_disk_is_large_enough_to_the_byte() -> None:
    assert refusal(disk(size=2**30), force=False, needed=2**30) is None


def test_a_stick_is_described_with_its_partitions_and_labels() -> None:
    first = part(1, size=268 * 10**6, label="\x1b[2Jboot", fstype="vfat")
    stick = disk(first, part(2, size=4 * GB), rm=True, vendor="SanDisk ", model="Ultra Fit  ")
    assert stick.lines() == [
        "/dev/sdb: SanDisk Ultra Fit, 32.0 GB, bus usb, removable",
        '  /dev/sdb1: 268 MB, vfat, "\\x1b[2Jboot"',  # a label cannot command the terminal
        "  /dev/sdb2: 4.00 GB, unknown contents, no label",
    ]
    assert stick.facts()["partitions"][1] == {"path": "/dev/sdb2", "bytes": 4 * GB, "label": None, "filesystem": None}
    assert disk(vendor="0x1af4").title == ""

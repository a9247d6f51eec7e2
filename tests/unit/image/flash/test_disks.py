"""What is read of disks, and how it is shown."""

from pathlib import Path

import pytest

from image.flash import describe, tables
from image.flash.disk import Partition
from image.flash.sizes import sized
from tests.unit.image.flash.staged import CARD_READER, GB, SATA, USB, Staged


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return Staged(tmp_path)


def test_a_stick_is_described_with_its_partitions_and_labels(staged: Staged) -> None:
    disk = staged.disk("sdb", USB, removable="1", device__vendor="SanDisk ", device__model="Ultra Fit   ")
    staged.partition("sdb1", disk, size=268 * 10**6, ID_FS_LABEL="bootfs", ID_FS_TYPE="vfat")
    staged.partition("sdb2", disk, size=4 * GB)
    assert describe.disk_lines(staged["sdb"]) == [
        "/dev/sdb: SanDisk Ultra Fit, 32.0 GB, bus usb, removable",
        '  /dev/sdb1: 268 MB, vfat, "bootfs"',
        "  /dev/sdb2: 4.00 GB, unknown contents, no label",
    ]


def test_a_card_is_known_by_its_name(staged: Staged) -> None:
    staged.disk("mmcblk0", CARD_READER, device__type="SD", device__name="SC32G")
    disk = staged["mmcblk0"]
    assert (disk.bus, disk.card, disk.title) == ("mmc", "SD", "SC32G")


def test_a_number_instead_of_a_vendor_is_not_shown(staged: Staged) -> None:
    staged.disk("vda", "pci0000:00/0000:00:02.0/virtio1", device__vendor="0x1af4")
    assert (staged["vda"].bus, staged["vda"].title) == ("virtio", "")


def test_partitions_come_in_their_order(staged: Staged) -> None:
    disk = staged.disk("sdb", USB)
    for name in ("sdb2", "sdb1"):
        staged.partition(name, disk)
    assert staged["sdb"].names == ("sdb", "sdb1", "sdb2")


def test_a_label_cannot_command_the_terminal(staged: Staged) -> None:
    staged.partition("sdb1", staged.disk("sdb", USB), ID_FS_LABEL="\x1b[2Jboot")
    assert "?[2Jboot" in describe.disk_lines(staged["sdb"])[1]


def test_a_disk_that_vanishes_while_it_is_read_has_no_size(staged: Staged) -> None:
    (staged.root / "sys/block/sdb").symlink_to("../devices/gone")
    assert staged["sdb"].size == 0


def test_the_list_begins_with_what_can_be_written_and_says_why_the_rest_cannot(staged: Staged) -> None:
    staged.disk("loop0", "virtual")
    staged.disk("sda", SATA)
    staged.disk("sdb", USB)
    lines = describe.list_lines(staged.machine)
    assert [line.split(":")[0] for line in lines] == ["/dev/sdb", "  can be written", "/dev/sda", "  no"]
    assert lines[3] == "  no: it is not removable (bus ata): --force writes to it all the same"


def test_a_machine_without_disks_has_an_empty_list(staged: Staged) -> None:
    assert describe.list_lines(staged.machine) == ["no disks"]


def test_a_program_reads_the_same_of_a_disk(staged: Staged) -> None:
    staged.partition("sdb1", staged.disk("sdb", USB), ID_FS_LABEL="bootfs", ID_FS_TYPE="vfat")
    facts = describe.disk_facts(staged["sdb"])
    assert (facts["path"], facts["bytes"], facts["bus"]) == ("/dev/sdb", 32 * GB, "usb")
    assert facts["partitions"] == [{"path": "/dev/sdb1", "bytes": GB, "label": "bootfs", "filesystem": "vfat"}]
    assert isinstance(staged["sdb"].partitions[0], Partition)


def test_lines_that_are_no_mounts_are_left_out() -> None:
    text = "\nrubbish\n30 1 8:1 / /mnt\\011x rw - ext4 /dev/sda1 rw\n31 1 8:2 / - short\n"
    assert list(tables.mounts(text)) == [tables.Mount("8:1", "/mnt\tx", "/dev/sda1")]


def test_swap_files_have_their_paths() -> None:
    assert list(tables.swaps("Filename\tType\n/my\\040swap file 1 0 -2\n/dev/sda2 partition 1 0 -3\n")) == [
        "/my swap",
        "/dev/sda2",
    ]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        *((0, "0 B"), (512, "512 B"), (999, "999 B"), (1500, "1.50 kB"), (9_999_000, "10.0 MB")),
        *((999_600_000, "1.00 GB"), (31_914_983_424, "31.9 GB"), (10**16, "10000 TB")),
    ],
)
def test_sizes_have_three_digits(count: int, text: str) -> None:
    assert sized(count) == text

"""What counts as an image of a disk."""

import pytest

from image.flash.partition_table import flaw
from tests.unit.image.flash.made import gpt, mbr

SIZE = 1 << 20
SECTORS = SIZE // 512
FAT_BOOT_SECTOR = (
    b"\xeb\x3c\x90mkfs.fat".ljust(446, b"\xf6") + b"not a table, but code of a boot sector".ljust(64) + b"\x55\xaa"
)


def test_a_table_whose_partitions_lie_in_the_image_is_right() -> None:
    assert flaw(mbr((0x80, 0x0C, 8, 100), (0, 0x83, 108, SECTORS - 108)) + bytes(512), SIZE) is None


def test_a_gpt_whose_copy_lies_in_the_image_is_right() -> None:
    assert flaw(gpt(SECTORS), SIZE) is None


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "no partition table"),
        (bytes(1024), "no partition table"),
        (b"PK\x03\x04" + bytes(2000), "no partition table"),
        (mbr() + bytes(512), "no partition table"),
        (mbr((0x7F, 0x0C, 8, 100)) + bytes(512), "no partition table"),
        (mbr((0, 0x0C, 0, 100)) + bytes(512), "no partition table"),
        (FAT_BOOT_SECTOR + bytes(512), "no partition table"),
        (mbr((0, 0x0C, 8, SECTORS)) + bytes(512), "cut short"),
        (gpt(SECTORS + 1), "cut short"),
        (mbr((0, 0xEE, 1, 100)) + bytes(512), "no GPT, though it says so"),
        (gpt(SECTORS)[:560] + b"x" + gpt(SECTORS)[561:], "damaged"),
    ],
)
def test_anything_else_is_refused(head: bytes, reason: str) -> None:
    found = flaw(head, SIZE)
    assert found is not None
    assert reason in found


def test_an_image_that_ends_within_a_sector_is_cut_short() -> None:
    found = flaw(mbr((0, 0x0C, 8, 100)) + bytes(512), SIZE + 1)
    assert found is not None
    assert "cut short" in found

"""A partition that grows to the end of its disk: on a loop device, by the tools that the image brings."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from image.firstboot.apply import System, keep_up
from image.firstboot.upkeep import GrowingPartition, partition, upkeep
from tests.netns.world import needs

MIB = 1 << 20
TABLES = {
    "gpt": "label: gpt\nsize=8MiB\nsize=40MiB\n",
    "mbr": "label: dos\nsize=8MiB, type=c\nsize=40MiB, type=83\n",
}
pytestmark = needs("growpart", "losetup", "lsblk", "mke2fs", "mount", "partx", "resize2fs", "sfdisk")


def call(*command: str | Path, given: str | None = None) -> str:
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def card(folder: Path, table: str) -> Iterator[Path]:
    """A loop device whose image of 50 MiB was written to a card of 128, its second partition an ext4, mounted."""
    with ExitStack() as made:
        image = folder / "card.img"
        with image.open("wb") as file:
            file.truncate(50 * MIB)
        call("sfdisk", "--quiet", image, given=TABLES[table])
        os.truncate(image, 128 * MIB)
        device = Path(call("losetup", "--find", "--show", image))
        made.callback(call, "losetup", "--detach", device)
        # Not every kernel reads the tables of loop devices by itself.
        call("partx", "--add", device)
        made.callback(call, "partx", "--delete", device)
        part = Path(f"{device}p2")
        call("mke2fs", "-q", "-F", "-t", "ext4", part)
        mounted = folder / "root"
        mounted.mkdir()
        call("mount", part, mounted)
        made.callback(call, "umount", mounted)
        (mounted / "file").write_text("still here")
        yield mounted


def found(mounted: Path) -> GrowingPartition:
    device = mounted.stat().st_dev
    return partition(Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve())


@pytest.mark.parametrize("table", TABLES)
def test_the_partition_takes_the_whole_card_while_it_is_mounted(tmp_path: Path, table: str) -> None:
    with card(tmp_path, table) as mounted:
        before = found(mounted)
        assert (before.number, before.size, before.filesystem) == (2, 40 * MIB, 40 * MIB)
        uuid = call("lsblk", "--noheadings", "--output", "PARTUUID", before.device)
        grow, *_ = upkeep(before, has_host_keys=True)
        keep_up(grow, System(Path("/"), running=True))
        after = found(mounted)
        assert after.size > 115 * MIB
        assert call("lsblk", "--noheadings", "--output", "PARTUUID", after.device) == uuid
        assert (mounted / "file").read_text() == "still here"
        # If power goes now, the next boot has this left to do.
        left = upkeep(after, has_host_keys=True)
        assert [str(action) for action in left] == [f"grow the file system on {after.device}"]
        # A table that is as large as it can be is no error.
        keep_up(grow, System(Path("/"), running=True))

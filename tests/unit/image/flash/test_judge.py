"""May this disk be written? Machines are staged as files, and read as the real one is."""

from pathlib import Path

import pytest

from image.flash.judge import Refusal, refusal, whole_disk
from tests.unit.image.flash.staged import CARD_READER, GB, NVME, SATA, USB, Staged
from tributary.settings.errors import Exit


@pytest.fixture
def staged(tmp_path: Path) -> Staged:
    return Staged(tmp_path)


def judged(staged: Staged, name: str, *, force: bool = False, needed: int = GB) -> Refusal | None:
    return refusal(staged.machine, staged[name], force=force, needed=needed)


def reason(staged: Staged, name: str, code: Exit, *, force: bool = True, needed: int = GB) -> str:
    """The reason against a disk, which must be one that --force does not set aside."""
    found = judged(staged, name, force=force, needed=needed)
    assert found is not None
    assert found.code is code
    return found.reason


def test_a_usb_stick_may_be_written(staged: Staged) -> None:
    staged.disk("sdb", USB)
    assert judged(staged, "sdb") is None


def test_an_sd_card_may_be_written(staged: Staged) -> None:
    staged.disk("mmcblk0", CARD_READER, device__type="SD")
    assert judged(staged, "mmcblk0") is None


def test_a_disk_that_says_it_is_removable_may_be_written(staged: Staged) -> None:
    staged.disk("sdb", SATA, removable="1")
    assert judged(staged, "sdb") is None


@pytest.mark.parametrize(
    ("name", "where", "kind"),
    [("sda", SATA, ""), ("nvme0n1", NVME, ""), ("mmcblk0", CARD_READER, "MMC"), ("loop0", "virtual", "")],
)
def test_what_is_built_in_is_written_by_force_alone(staged: Staged, name: str, where: str, kind: str) -> None:
    staged.disk(name, where, device__type=kind)
    assert "not removable" in reason(staged, name, Exit.USAGE, force=False)
    assert judged(staged, name, force=True) is None


def test_a_mounted_disk_is_refused_with_the_command_that_frees_it(staged: Staged) -> None:
    disk = staged.disk("sdb", USB)
    staged.partition("sdb1", disk)
    staged.mount("/dev/sdb1", "/media/my\\040card", (disk / "sdb1/dev").read_text().strip())
    found = reason(staged, "sdb", Exit.IN_USE)
    assert found == "it is mounted (/dev/sdb1 at /media/my card): `umount /media/my card` first"


def test_a_mount_is_found_by_its_number_when_its_source_is_some_other_path(staged: Staged) -> None:
    disk = staged.disk("sdb", USB)
    staged.partition("sdb1", disk)
    staged.mount("/dev/disk/by-label/gone", "/mnt", (disk / "sdb1/dev").read_text().strip())
    assert "/dev/sdb1 at /mnt" in reason(staged, "sdb", Exit.IN_USE)


def test_of_many_mounts_a_few_are_named(staged: Staged) -> None:
    staged.disk("sdb", USB)
    for point in range(5):
        staged.mount("/dev/sdb", f"/mnt/{point}")
    assert "/dev/sdb at /mnt/2 and 2 more" in reason(staged, "sdb", Exit.IN_USE)


def test_a_disk_with_swap_on_it_is_refused(staged: Staged) -> None:
    staged.partition("sdb2", staged.disk("sdb", USB))
    staged.swap("/dev/sdb2")
    assert reason(staged, "sdb", Exit.IN_USE) == "it is used as swap (/dev/sdb2): `swapoff /dev/sdb2` first"


def test_the_disk_that_the_system_runs_from_is_refused_even_if_it_is_a_stick(staged: Staged) -> None:
    staged.partition("sda1", staged.disk("sda", USB, removable="1"))
    staged.mount("/dev/sda1", "/mnt")
    staged.mount("/dev/sda1", "/")
    assert reason(staged, "sda", Exit.USAGE).startswith("the system runs from it (/ is on /dev/sda1)")


def test_the_system_disk_is_found_through_lvm_on_encryption(staged: Staged) -> None:
    disk = staged.disk("sda", SATA)
    staged.partition("sda3", disk)
    crypt = staged.stack("dm-0", disk / "sda3", title="sda3_crypt")
    staged.stack("dm-1", crypt, title="debian-root")
    (staged.root / "dev/mapper/debian-root").symlink_to("../dm-1")
    staged.mount("/dev/mapper/debian-root", "/")
    assert "(/ is on /dev/dm-1)" in reason(staged, "sda", Exit.USAGE)


def test_the_system_disk_is_found_through_a_partition_of_a_raid(staged: Staged) -> None:
    disks = [staged.disk("sda", SATA), staged.disk("sdb", USB)]
    raid = staged.stack("md127", *disks)
    staged.partition("md127p1", raid)
    staged.mount("/dev/md127p1", "/")
    assert "(/ is on /dev/md127p1)" in reason(staged, "sdb", Exit.USAGE)


def test_every_device_of_a_btrfs_counts_though_the_table_of_mounts_names_one(staged: Staged) -> None:
    for name in ("sda", "sdb"):
        staged.partition(f"{name}1", staged.disk(name, USB))
    group = staged.root / "sys/fs/btrfs/5f2a/devices"
    group.mkdir(parents=True)
    (group / "sda1").touch()
    (group / "sdb1").touch()
    staged.mount("/dev/sda1", "/", kind="btrfs")
    assert "(/ is on /dev/sdb1)" in reason(staged, "sdb", Exit.USAGE)


def test_the_stick_that_a_live_system_was_booted_from_is_refused(staged: Staged) -> None:
    staged.partition("sdb1", staged.disk("sdb", USB, removable="1"))
    staged.mount("/dev/sdb1", "/run/live/medium", kind="iso9660")
    assert "the system runs from it" in reason(staged, "sdb", Exit.USAGE)


def test_a_disk_that_is_held_is_refused_and_the_holder_named(staged: Staged) -> None:
    disk = staged.disk("sdb", USB)
    staged.partition("sdb1", disk)
    staged.stack("dm-0", disk / "sdb1", title="backup")
    assert "part of dm-0, backup (LVM" in reason(staged, "sdb", Exit.IN_USE)


def test_a_reader_without_a_card_is_refused(staged: Staged) -> None:
    staged.disk("sdb", USB, size=0, removable="1")
    assert reason(staged, "sdb", Exit.UNAVAILABLE) == "there is no card in it"


def test_a_card_with_its_lock_switch_set_is_refused(staged: Staged) -> None:
    staged.disk("mmcblk0", CARD_READER, device__type="SD", ro="1")
    assert "lock switch" in reason(staged, "mmcblk0", Exit.UNAVAILABLE)


def test_a_disk_with_large_sectors_is_refused(staged: Staged) -> None:
    staged.disk("sdb", USB, queue__logical_block_size="4096")
    assert "4096 bytes" in reason(staged, "sdb", Exit.USAGE)


def test_a_disk_is_large_enough_to_the_byte(staged: Staged) -> None:
    staged.disk("sdb", USB, size=2**30)
    assert judged(staged, "sdb", needed=2**30) is None
    assert "it has 1.07 GB, and the image needs 1.07 GB" in reason(staged, "sdb", Exit.USAGE, needed=2**30 + 512)


def test_a_partition_is_refused_and_its_disk_named(staged: Staged) -> None:
    disk = staged.disk("sdb", USB)
    staged.partition("sdb1", disk)
    found = whole_disk(staged.machine, (disk / "sdb1/dev").read_text().strip())
    assert found == Refusal(Exit.USAGE, "a partition, and not a whole disk: accepted: /dev/sdb")


def test_a_device_that_the_kernel_does_not_list_is_refused(staged: Staged) -> None:
    found = whole_disk(staged.machine, "240:0")
    assert isinstance(found, Refusal)
    assert found.code is Exit.UNAVAILABLE


def test_what_is_on_other_disks_speaks_against_none(staged: Staged) -> None:
    staged.disk("sdb", USB)
    system = staged.disk("sda", SATA)
    staged.partition("sda1", system)
    staged.mount("/dev/sda1", "/")
    staged.mount("tmpfs", "/tmp")
    staged.mount("server:/dev/export", "/srv", kind="nfs")
    staged.swap("/swapfile")
    assert judged(staged, "sdb") is None

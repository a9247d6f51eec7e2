"""What a machine says of its disks: plain data, which sysfs.py reads and judge.py judges."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Partition:
    """One partition; ``number`` is MAJOR:MINOR, ``size`` is in bytes, ``holders`` are what is stacked on it."""

    name: str
    number: str
    size: int
    holders: tuple[str, ...] = ()
    label: str = ""
    filesystem: str = ""


@dataclass(frozen=True)
class Disk:
    """One whole block device, be it a disk or what stands on one (device mapper, RAID, loop).

    ``sequence`` is another one after each change of the medium (sysfs-block, diskseq). ``size`` and ``sector`` are in
    bytes, ``size`` is 0 without a medium. ``bus`` is usb, mmc, nvme, ata, virtio, scsi or virtual; on the bus mmc
    ``card`` is SD or MMC.
    """

    name: str
    number: str
    sequence: int
    size: int
    sector: int
    bus: str
    card: str
    vendor: str
    model: str
    removable: bool
    read_only: bool
    holders: tuple[str, ...] = ()
    partitions: tuple[Partition, ...] = ()

    @property
    def path(self) -> str:
        """Where the device is."""
        return device_path(self.name)

    @property
    def title(self) -> str:
        """Vendor and model, as far as they are known."""
        return f"{self.vendor} {self.model}".strip()

    @property
    def names(self) -> tuple[str, ...]:
        """The kernel's names of the disk and its partitions."""
        return self.name, *(partition.name for partition in self.partitions)


@dataclass(frozen=True)
class Use:
    """A disk or partition ``name`` is mounted at ``point``, or is used as swap when that is empty."""

    name: str
    point: str


@dataclass(frozen=True)
class Machine:
    """All whole block devices of a machine, and what is made of them."""

    disks: tuple[Disk, ...]
    uses: tuple[Use, ...]


def device_path(name: str) -> str:
    """Where a device of this kernel name is: sysfs writes ``!`` for a slash in a name."""
    return "/dev/" + name.replace("!", "/")

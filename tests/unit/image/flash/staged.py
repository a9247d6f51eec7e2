"""Machines made of files: sysfs, /proc, /dev and udev's records in a folder, laid out as the kernel lays them out."""

from dataclasses import dataclass
from pathlib import Path

from image.flash.disk import Disk, Machine
from image.flash.sysfs import Roots, read

GB = 10**9
USB = "pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0"
SATA = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0"
CARD_READER = "pci0000:00/0000:00:1c.0/0000:02:00.0/mmc_host/mmc0/mmc0:aaaa"
NVME = "pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0"


@dataclass
class Staged:
    """A machine that a test builds; ``machine`` is what the program sees of it."""

    root: Path

    def __post_init__(self) -> None:
        for folder in ("sys/block", "sys/dev/block", "proc/self", "dev/mapper", "udev"):
            (self.root / folder).mkdir(parents=True)
        self._minor = 0

    @property
    def roots(self) -> Roots:
        return Roots(*(self.root / name for name in ("sys", "proc", "dev", "udev")))

    @property
    def machine(self) -> Machine:
        return read(self.roots)

    def __getitem__(self, name: str) -> Disk:
        return next(disk for disk in self.machine.disks if disk.name == name)

    def disk(self, name: str, where: str, size: int = 32 * GB, **files: str) -> Path:
        """A disk on the bus of ``where``; ``files`` are more files, with __ for a slash. Returns its folder."""
        device = self.root / "sys/devices" / where
        folder = device / (f"block/{name}" if where != "virtual" else name)
        self._block(folder, size)
        _write(folder, {"removable": "0", "diskseq": "7", "queue/logical_block_size": "512"})
        (folder / "slaves").mkdir()
        if where != "virtual":
            (folder / "device").symlink_to(device)
        _write(folder, {key.replace("__", "/"): value for key, value in files.items()})
        (self.root / "sys/block" / name).symlink_to(folder)
        return folder

    def partition(self, name: str, disk: Path, size: int = GB, **known: str) -> None:
        """A partition of ``disk``, and what udev knows of it."""
        self._block(disk / name, size)
        _write(disk / name, {"partition": name[-1]})
        number = (disk / name / "dev").read_text()
        _write(
            self.root / "udev", {f"b{number.strip()}": "".join(f"E:{key}={value}\n" for key, value in known.items())}
        )

    def stack(self, name: str, *below: Path, title: str = "") -> Path:
        """A device that stands on others, as LVM, encryption and RAID make them."""
        folder = self.disk(name, "virtual", dm__name=title)
        for path in below:
            (path / "holders" / name).mkdir()
        return folder

    def mount(self, source: str, point: str, number: str = "0:99", kind: str = "ext4") -> None:
        with (self.root / "proc/self/mountinfo").open("a") as table:
            table.write(f"30 1 {number} / {point} rw,relatime shared:1 - {kind} {source} rw\n")

    def swap(self, path: str) -> None:
        head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        (self.root / "proc/swaps").write_text(f"{head}{path}                 partition\t1000\t0\t-2\n")

    def _block(self, folder: Path, size: int) -> None:
        self._minor += 1
        _write(folder, {"dev": f"8:{self._minor}", "size": str(size // 512), "ro": "0"})
        (folder / "holders").mkdir()
        (self.root / "dev" / folder.name).touch()


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n")

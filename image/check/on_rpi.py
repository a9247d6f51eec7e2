"""What an image for the Raspberry Pi must have: what the firmware of each model reads before Linux starts."""

from collections.abc import Iterator, Mapping

from image.check import device_tree
from image.check.findings import Disk, Finding, found
from image.check.kernel_files import initramfs_flaw, kernel_flaw
from image.check.tables import FAT32, LINUX, Table

MODELS: Mapping[str, tuple[str, str]] = {
    "3 Model B": ("bcm2837-rpi-3-b.dtb", "raspberrypi,3-model-b"),
    "3 Model B+": ("bcm2837-rpi-3-b-plus.dtb", "raspberrypi,3-model-b-plus"),
    "3 Model A+": ("bcm2837-rpi-3-a-plus.dtb", "raspberrypi,3-model-a-plus"),
    "Zero 2 W": ("bcm2837-rpi-zero-2-w.dtb", "raspberrypi,model-zero-2-w"),
    "4 Model B": ("bcm2711-rpi-4-b.dtb", "raspberrypi,4-model-b"),
    "400": ("bcm2711-rpi-400.dtb", "raspberrypi,400"),
    "Compute Module 4": ("bcm2711-rpi-cm4-io.dtb", "raspberrypi,4-compute-module"),
    "5 Model B": ("bcm2712-rpi-5-b.dtb", "raspberrypi,5-model-b"),
}
"""The device tree of each model, and what it says that it is for."""

# Loaded by the models up to Zero 2 W from the card; by 4, 400 and CM4 the ones with a 4. Model 5 has its own in ROM.
_FIRMWARE = ("bootcode.bin", "start.elf", "fixup.dat", "start4.elf", "fixup4.dat")
_WIRELESS = {"/usr/lib/firmware/brcm": ("brcmfmac43430-sdio.bin", "brcmfmac43455-sdio.bin")}


def partitions(table: Table) -> Iterator[Finding]:
    """An MBR, which all models read, with two partitions of their kinds."""
    kinds = [each.kind for each in table.partitions]
    yield found("table: MBR", met=table.kind == "mbr", otherwise=table.kind)
    yield found("table: FAT32, Linux", met=kinds == [FAT32, LINUX], otherwise=", ".join(kinds))


def devices(disk: Disk) -> Mapping[str, str]:
    """What is mounted where: both partitions, by their own numbers."""
    return {"/": f"PARTUUID={disk.root_partition.name}", "/boot/firmware": f"PARTUUID={disk.boot_partition.name}"}


def boot(disk: Disk) -> Iterator[Finding]:
    """Firmware, config.txt, cmdline.txt, kernel, initramfs, device trees."""
    there = disk.boot.names()
    for name in _FIRMWARE:
        yield found(f"boot partition: {name}", met=name in there, otherwise="missing")
    if not {"config.txt", "cmdline.txt"} <= there:
        yield Finding("boot partition: config.txt and cmdline.txt", "missing")
        return
    yield from _configuration(disk, settings(disk.boot.read("config.txt").decode()), there)
    yield from _command_line(disk, disk.boot.read("cmdline.txt").decode())
    for model, (name, compatible) in MODELS.items():
        yield _tree(disk, there, model, name, compatible)
    for folder, names in _WIRELESS.items():
        missing = sorted(
            set(names) - {name.removesuffix(".xz").removesuffix(".zst") for name in disk.root.names(folder)}
        )
        yield found("root: firmware of the wireless interfaces", met=not missing, otherwise=f"no {', '.join(missing)}")


def settings(config: str) -> dict[str, str]:
    """config.txt by its keys; 'initramfs NAME' has a blank where the others have '='."""
    lines = [line.strip() for line in config.splitlines() if line.strip() and not line.startswith(("#", "["))]
    pairs = (line.replace("initramfs ", "initramfs=", 1).partition("=") for line in lines)
    return {key.strip(): value.strip().partition(" ")[0] for key, _, value in pairs}


def _configuration(disk: Disk, config: Mapping[str, str], there: frozenset[str]) -> Iterator[Finding]:
    for key, value in (("arm_64bit", "1"), ("upstream_kernel", "1")):
        yield found(f"config.txt: {key}={value}", met=config.get(key) == value, otherwise=f"{config.get(key)}")
    for key, judge in (("kernel", lambda data: kernel_flaw(data, "arm64")), ("initramfs", initramfs_flaw)):
        name = config.get(key, "")
        wrong = judge(disk.boot.read(name)) if name in there else f"{name or 'not named'}: it is not there"
        yield Finding(f"config.txt: {key} {name}", wrong or "")


def _command_line(disk: Disk, text: str) -> Iterator[Finding]:
    words = text.split()
    yield found("cmdline.txt: one line", met=len(text.strip().splitlines()) == 1, otherwise="several")
    yield found(f"cmdline.txt: {disk.root_name}", met=disk.root_name in words, otherwise=text.strip())
    yield found("cmdline.txt: rootwait", met="rootwait" in words, otherwise="missing: cards come late")
    sized = [word for word in words if word.startswith("cma=")]
    yield found("cmdline.txt: memory as each model has it", met=not sized, otherwise=f"{sized}: a model 4 hangs")
    names = [word for word in words if word.startswith("net.ifnames=")]
    yield found("cmdline.txt: lasting names of interfaces", met=names[-1:] == ["net.ifnames=1"], otherwise=f"{names}")


def _tree(disk: Disk, there: frozenset[str], model: str, name: str, compatible: str) -> Finding:
    what = f"device tree of Raspberry Pi {model}: {name}"
    if name not in there:
        return Finding(what, "missing")
    try:
        root = device_tree.root(disk.boot.read(name))
    except ValueError as error:
        return Finding(what, str(error))
    return found(what, met=compatible in root.compatible, otherwise=f"it is for {root.model}")

"""What an image for the Raspberry Pi must have: what the firmware of each model reads before Linux starts."""

from collections.abc import Iterator, Mapping

from image.check.findings import Disk, Finding, found, run
from image.check.on_any_board import initramfs_flaw, kernel_flaw
from image.partitions import FAT32, LINUX, Partition
from image.upgrade.boot_partition import COMMAND_LINE
from image.upgrade.choice import BACK, CONFIG, SLOTS, STATES, folder, states
from tributary.settings.errors import CommandError, Exit

ARCHITECTURE = "arm64"
TABLE, LABEL = "MBR", "dos"
"""It is an MBR, which all models read."""
PARTITIONS, KINDS = "FAT32, two roots, data", [FAT32, LINUX, LINUX, LINUX]

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
_WIRELESS = {"brcmfmac43430-sdio.bin", "brcmfmac43455-sdio.bin"}


def boot(disk: Disk) -> Iterator[Finding]:
    """Firmware, config.txt, and the folders of both slots, of which the first is full."""
    there = disk.boot.names()
    for name in _FIRMWARE:
        yield found(f"boot partition: {name}", met=name in there, otherwise="missing")
    lines = {slot: f"{folder(slot)}/{COMMAND_LINE}" for slot in SLOTS}
    missing = sorted({CONFIG, STATES, *lines.values()} - there)
    if missing:
        yield Finding("boot partition: what the firmware and upgrades read", f"no {', '.join(missing)}")
        return
    yield from _configuration(disk, settings(disk.boot.read(CONFIG).decode()), there)
    yield found("boot partition: no slot is on trial", met=BACK not in there, otherwise=f"{BACK} is there")
    written = disk.boot.read(STATES).decode()
    yield found(f"{STATES}: A is good, B is empty", met=written == states(SLOTS[:1]), otherwise=repr(written))
    for slot, place in zip(SLOTS, disk.table.partitions[1:3], strict=True):
        yield from _command_line(lines[slot], disk.boot.read(lines[slot]).decode(), slot, place)
    for model, (name, compatible) in MODELS.items():
        yield _tree(disk, there, model, f"{folder(SLOTS[0])}/{name}", compatible)
    wireless = {name.removesuffix(".xz").removesuffix(".zst") for name in disk.root.names("/usr/lib/firmware/brcm")}
    lacks = ", ".join(sorted(_WIRELESS - wireless))
    yield found("root: firmware of the wireless interfaces", met=not lacks, otherwise=f"no {lacks}")


def settings(config: str) -> dict[str, str]:
    """config.txt by its keys; 'initramfs NAME' has a blank where the others have '='."""
    lines = [line.strip() for line in config.splitlines() if line.strip() and not line.startswith(("#", "["))]
    pairs = (line.replace("initramfs ", "initramfs=", 1).partition("=") for line in lines)
    return {key.strip(): value.strip().partition(" ")[0] for key, _, value in pairs}


def _configuration(disk: Disk, config: Mapping[str, str], there: frozenset[str]) -> Iterator[Finding]:
    prefix = f"{folder(SLOTS[0])}/"
    for key, value in (("arm_64bit", "1"), ("upstream_kernel", "1"), ("os_prefix", prefix)):
        yield found(f"{CONFIG}: {key}={value}", met=config.get(key) == value, otherwise=f"{config.get(key)}")
    for key, judge in (("kernel", lambda data: kernel_flaw(data, ARCHITECTURE)), ("initramfs", initramfs_flaw)):
        name = prefix + config.get(key, "")
        wrong = judge(disk.boot.read(name)) if name in there else "it is not there"
        yield Finding(f"{CONFIG}: {key} {name}", wrong)


def _command_line(name: str, text: str, slot: str, place: Partition) -> Iterator[Finding]:
    words = text.split()
    yield found(f"{name}: one line", met=len(text.strip().splitlines()) == 1, otherwise="several")
    number = place.name.partition("-")[0]
    for word in (f"root=PARTUUID={place.name}", f"rauc.slot={slot}", f"tributary_disk={number}", "panic=30"):
        yield found(f"{name}: {word}", met=word in words, otherwise=text.strip())
    yield found(f"{name}: rootwait", met="rootwait" in words, otherwise="missing: cards come late")
    sized = [word for word in words if word.startswith("cma=")]
    yield found(f"{name}: memory as each model has it", met=not sized, otherwise=f"{sized}: a model 4 hangs")
    yield found(f"{name}: lasting names of interfaces", met="net.ifnames=0" not in words, otherwise="net.ifnames=0")


def _tree(disk: Disk, there: frozenset[str], model: str, name: str, compatible: str) -> Finding:
    what = f"device tree of Raspberry Pi {model}: {name}"
    if name not in there:
        return Finding(what, "missing")
    try:
        shown = run("fdtget", "-", "/", "model", "/", "compatible", given=disk.boot.read(name))
    except CommandError as failure:
        if failure.code is Exit.UNAVAILABLE:
            raise
        return Finding(what, f"no device tree, or one that is cut short: {failure}")
    model_there, others = shown.decode().splitlines()
    return found(what, met=compatible in others.split(), otherwise=f"it is for {model_there}")

"""Finished images in QEMU, as they are: the test is started by what the machine's firmware tells systemd.

An image is changed as a person changes it: its disk is larger than the image, and tributary.toml on its boot partition
is another one. The test itself comes as a credential (systemd.system-credentials(7): systemd.extra-unit and
systemd.unit-dropin), which a PC's firmware hands over by SMBIOS, and its program on a second disk.
"""

import base64
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from image import partitions
from image.check import on_rpi
from image.check.findings import Fat

GUEST = Path(__file__).parent / "guest"
LABEL = "selftest"
GROWTH = 512 << 20

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f somebody@laptop"
SETTINGS = f'hostname = "attic"\nssh_keys = ["{KEY}"]\nclient_networks = ["10.0.0.0/8"]\n'
"""Of a gateway."""

UNIT = """\
[Unit]
Description=The self-test, which is none of the image's
DefaultDependencies=no
After=multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force

[Service]
# It asks whether the start is over, to which its own start must not belong.
Type=exec
Environment=PYTHONDONTWRITEBYTECODE=1
ExecStartPre=/usr/bin/mkdir -p /run/selftest
ExecStartPre=/usr/bin/mount -o ro /dev/disk/by-label/{label} /run/selftest
ExecStart=/usr/bin/python3 -u /run/selftest/selftest.py {sections}
RuntimeMaxSec=1500
StandardOutput=file:/dev/virtio-ports/{label}
StandardError=inherit
"""
DROP_IN = "[Unit]\nWants=selftest.service\n"

OVMF = (Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd"))
# No KVM: it may be there and unusable. Without cmpxchg16b, which QEMU before 8 emulates in a way that crashes SLUB.
PC = ("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "qemu64,-cx16,-svm", "-smp", "2", "-m", "2G")
# It is killed with what started it, and leaves the processors to what is measured meanwhile: as a session of its own
# (autogroup in sched(7)): the kernel weighs these against each other before the niceness of what is in them counts.
_YIELD = '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"'
ASIDE = ("setsid", "setpriv", "--pdeathsig", "KILL", "sh", "-c", _YIELD, "sh")
# The machine that no board is: what boots there is the root with Debian's kernel, not the firmware's way to it.
_VIRT = ("qemu-system-aarch64", "-machine", "virt", "-accel", "tcg,thread=multi", "-cpu", "cortex-a72", "-smp", "2")
# What the self-test says comes by a port of its own: consoles have login prompts and the kernel's messages.
_COMMON = (
    *("-display", "none", "-no-reboot", "-device", "virtio-serial-pci,addr=0x10"),
    *("-chardev", "file,id=report,path=report"),
    *("-device", f"virtserialport,chardev=report,name={LABEL}"),
)
# Networks of QEMU's own, with an address for the guest by DHCP and no way out.
_NETWORK = ("-nic", "user,model=virtio-net-pci,net=192.168.76.0/24,restrict=on")
HOME = tuple(
    word
    for number, backend in enumerate(
        (
            "user,id=n3,net=192.168.76.0/24,restrict=on",
            "user,id=n4,net=192.168.86.0/24,restrict=on",
            "hubport,id=n5,hubid=0",
        ),
        start=3,
    )
    for word in ("-netdev", backend, "-device", f"virtio-net-pci,netdev=n{number},addr={number:#x}")
)
"""Two links and a LAN."""
PC_CARDS = ("ens3", "ens4", "ens5")
"""What HOME is called by where it is plugged in (systemd.net-naming-scheme(7)): firmware numbers a PC's slots."""
VIRT_CARDS = ("enp0s3", "enp0s4", "enp0s5")


@dataclass(frozen=True)
class Medium:
    """A disk that an image was written to, in ``path``."""

    path: Path

    @classmethod
    def of(cls, image: Path, folder: Path, settings: str | None) -> "Medium":
        """``image`` unpacked onto a disk that is larger, with a person's ``settings`` on its boot partition, if any."""
        path = folder / "disk.img"
        subprocess.run(["zstd", "-q", "-d", "--sparse", "-f", image, "-o", path], check=True)
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size + GROWTH)
        medium = cls(path)
        if settings is not None:
            (folder / "tributary.toml").write_text(settings)
            where = f"{path}@@{medium.boot.start}"
            subprocess.run(["mcopy", "-o", "-i", where, folder / "tributary.toml", "::/"], check=True)
        return medium

    @property
    def _table(self) -> partitions.Table:
        return partitions.read(self.path)

    @property
    def boot(self) -> Fat:
        return Fat(self.path, self._table.of(partitions.EFI_SYSTEM, partitions.FAT32)[0].start)

    @property
    def roots(self) -> list[partitions.Partition]:
        return self._table.of(partitions.LINUX_ROOT_X86_64, partitions.LINUX)[:2]

    @property
    def root_name(self) -> str:
        return self.roots[0].name


def boot_pc(
    medium: Medium,
    *sections: str,
    seconds: int,
    uefi: bool = False,
    network: tuple[str, ...] = _NETWORK,
    other: Path | None = None,
) -> str:
    """Boot as a PC does, by BIOS or UEFI, with an ``other`` disk if there is one; returns what the self-test said."""
    folder = medium.path.parent
    (folder / "report").unlink(missing_ok=True)
    command = [*PC, *_COMMON, *network, *_drives(medium, folder, other)]
    for number, (name, text) in enumerate(_credentials(sections).items()):
        told = folder / f"credential-{number}"
        told.write_text(f"io.systemd.credential.binary:{name}={base64.b64encode(text.encode()).decode()}")
        command += ["-smbios", f"type=11,path={told}"]
    if uefi:
        shutil.copy(OVMF[1], folder / "vars.fd")
        command += ["-drive", f"if=pflash,format=raw,readonly=on,file={OVMF[0]}"]
        command += ["-drive", f"if=pflash,format=raw,file={folder / 'vars.fd'}"]
    return _run(command, folder, seconds)


def boot_virt(
    medium: Medium,
    *sections: str,
    seconds: int,
    network: tuple[str, ...] = _NETWORK,
    other: Path | None = None,
    also: str = "",
) -> str:
    """Boot an arm64 image on QEMU's ``virt`` machine by what config.txt names; the kernel is told ``also`` these words.

    A Raspberry Pi's firmware reads config.txt; QEMU has none, so this function stands in for it.
    """
    folder, fat = medium.path.parent, medium.boot
    config = on_rpi.settings(fat.read("config.txt").decode())
    for part in ("kernel", "initramfs"):
        (folder / part).write_bytes(fat.read(config["os_prefix"] + config[part]))
    given = fat.read(f"{config['os_prefix']}cmdline.txt").decode().strip()
    told = [
        f"systemd.set_credential_binary={name}:{base64.b64encode(text.encode()).decode()}"
        for name, text in _credentials(sections).items()
    ]
    line = " ".join([given, "console=ttyAMA0 quiet", also, *told])
    command = [*_VIRT, "-m", "2G", *_COMMON, *network, *_drives(medium, folder, other)]
    command += ["-kernel", str(folder / "kernel"), "-initrd", str(folder / "initramfs"), "-append", line]
    return _run(command, folder, seconds)


def _credentials(sections: tuple[str, ...]) -> dict[str, str]:
    unit = UNIT.format(label=LABEL, sections=" ".join(sections))
    return {"systemd.extra-unit.selftest.service": unit, "systemd.unit-dropin.multi-user.target": DROP_IN}


def disk(medium: Medium) -> list[str]:
    """The disk to boot from, in a slot of its own: those of the networks give these their names."""
    return _drive(medium.path, "medium", "0x11,bootindex=1")


def _drive(path: Path, name: str, slot: str, options: str = "") -> list[str]:
    given = f"file={path},if=none,id={name},format=raw{options}"
    return ["-drive", given, "-device", f"virtio-blk-pci,drive={name},addr={slot}"]


def _drives(medium: Medium, folder: Path, other: Path | None) -> list[str]:
    bench = folder / "bench.img"
    bench.unlink(missing_ok=True)
    making: list[str | Path] = ["mkfs.ext4", "-q", "-F", "-L", LABEL, "-d", GUEST, bench, "8M"]
    subprocess.run(making, check=True)
    more = _drive(other, "other", "0x13", ",readonly=on") if other else []
    return [*disk(medium), *_drive(bench, "bench", "0x12", ",readonly=on"), *more]


def _run(command: list[Any], folder: Path, seconds: int) -> str:
    """Until the machine is off; it is ended after ``seconds``. Returns the report; all that it said is shown."""
    words = [*ASIDE, *(str(word) for word in command), "-serial", "file:serial"]
    with (folder / "qemu").open("w") as said:
        process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()
    report, *others = ((folder / name).read_text(errors="replace") for name in ("report", "qemu", "serial"))
    sys.stdout.write("\n---\n".join((report, *others)))  # shown by pytest if a test fails
    return report


def section(console: str, name: str) -> dict[str, Any]:
    """What the guest found in that section of the self-test."""
    found = re.search(rf"BEGIN {name}\n(.*?)\nEND {name}", console, re.DOTALL)
    assert found is not None, f"the guest printed no {name}"
    facts: dict[str, Any] = json.loads(found[1].replace("\n", ""))
    assert "error" not in facts, facts["error"]
    return facts

"""The second half of an image's root: Tributary's packages, what an image alone needs, the way to boot; then tidied.

Nothing of this machine's network is to be had meanwhile: what is not in the base or among our packages is not there.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from image.firstboot.actions import WriteFile
from image.firstboot.identity import USER
from image.make import foreign, grub, lock, slots, tidy
from image.make.base import versions
from image.make.command import Runner
from image.make.layout import Spec
from image.make.texts import texts
from image.upgrade import grubenv
from image.upgrade.boot_partition import fill
from image.upgrade.choice import SLOTS, folder
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

GRUB, FIRMWARE = "boot/grub", "boot/firmware"

_ENABLED = (
    *("systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service"),
    "tributary-firewall.service",
)
# tributary-firstboot enables SSH, DNS and modems when the settings ask for them; Squid, wpa_supplicant and hostapd have
# units of ours or of an interface in their place.
DISABLED = (
    *("ssh.service", "ssh.socket", "dnsmasq.service", "squid.service", "wpa_supplicant.service", "hostapd.service"),
    *("ModemManager.service", "NetworkManager.service", "NetworkManager-dispatcher.service"),
    "NetworkManager-wait-online.service",
)
_ALWAYS = (
    *("part_gpt", "fat", "ext2", "search", "search_fs_uuid", "normal", "linux", "configfile", "echo", "test"),
    *("loadenv", "regexp", "ls", "cat", "reboot"),
)
_MODULES = {"i386-pc": ("biosdisk",), "x86_64-efi": ("all_video", "efi_gop")}
_EFI = f"/{FIRMWARE}/EFI/BOOT/BOOTX64.EFI"
"""Where UEFI looks on a disk that it was told nothing of (UEFI specification 2.10, section 3.5.1.1)."""


_ATTRIBUTES = ("--xattrs", "--xattrs-include=*", "--numeric-owner")
"""File capabilities are extended attributes (capabilities(7))."""


def unpack(tar: Path, root: Path, runner: Runner) -> None:
    """The system in ``tar`` into the folder ``root``."""
    runner.run(["tar", "--extract", *_ATTRIBUTES, "--file", str(tar), "--directory", str(root)])


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside ``target``, called so that what a killed build leaves of it is found and removed."""
    with TemporaryDirectory(dir=target.parent, prefix=f"{target.stem}.") as folder:
        root = Path(folder) / "root"
        root.mkdir(mode=0o755)
        yield root


def make(spec: Spec, packages: Path, base: Path, target: Path, runner: Runner) -> None:
    """The root of ``packages`` and ``base``, a tar file, as the tar file ``target``; raises CommandError (1, 71)."""
    with new_folder(target) as root, foreign.runnable(spec.board.architecture):
        unpack(base, root, runner)
        _Build(spec, packages, base, root, runner).everything()
        runner.run(["tar", "--create", *_ATTRIBUTES, "--sort=name", "--file", str(target), "-C", str(root), "."])


@dataclass(frozen=True)
class _Build:
    """What was unpacked into the folder ``root``, on its way to an image."""

    spec: Spec
    packages: Path
    base: Path
    root: Path
    runner: Runner

    def everything(self) -> None:
        self._prepare()
        self._install()
        self._choose_units()
        self._boot()
        self._check_versions()
        tidy.tidy(self.root, self.spec.seconds)

    def _prepare(self) -> None:
        (self.root / FIRMWARE).mkdir(parents=True, exist_ok=True)
        for text in texts(self.spec, "any", self.spec.board.name):
            self._write(text)
        if self.spec.trusted:
            self._write(WriteFile(slots.KEYRING, self.spec.trusted))
        (self.root / "etc/apt/sources.list").unlink(missing_ok=True)
        self._inside(
            "useradd", "--create-home", "--user-group", "--shell=/bin/bash", "--groups=adm,systemd-journal", USER
        )
        self._inside("usermod", "--lock", "root")
        self._inside("usermod", "--lock", USER)
        card = ROOT / "image/firstboot/tributary.toml"
        (self.root / FIRMWARE / card.name).write_bytes(card.read_bytes())

    def _install(self) -> None:
        """All in one step: each wants the others at its own version. Where no systemd runs, none starts anything.

        Without SOURCE_DATE_EPOCH, by which Python would read each module whole at each start, and compare its digest
        with the compiled form's, in place of looking at its time (PEP 552).
        """
        chosen = [path for name in self.spec.role.parts for path in self.packages.glob(f"{name}_*.deb")]
        for path in chosen:
            shutil.copy(path, self.root / "var/tmp")
        command = ["dpkg", "--force-unsafe-io", "--install", *(f"/var/tmp/{path.name}" for path in chosen)]
        self.runner.inside(self.root, command)

    def _choose_units(self) -> None:
        there = {
            path.name for folder in ("usr/lib", "etc") for path in (self.root / folder / "systemd/system").iterdir()
        }
        for verb, units in (("enable", _ENABLED), ("disable", DISABLED)):
            chosen = [unit for unit in units if unit in there]
            if chosen:
                self._inside("systemctl", verb, *chosen)

    def _boot(self) -> None:
        self._inside("update-initramfs", "-c", "-k", self._kernel)
        self._inside(slots.KERNEL_HOOK, self._kernel)
        for text in texts(self.spec, f"{self.spec.board.name}-disk"):
            self._write(text)
        if self.spec.board.gpt:
            self._install_grub()
        else:
            fill(self.root, self.root / FIRMWARE / folder(SLOTS[0]))
        for path in (*slots.KEPT, slots.DATA):
            (self.root / path).mkdir(parents=True, exist_ok=True)
        # systemd uses it in no other mode.
        (self.root / "var/lib/private").chmod(0o700)

    def _install_grub(self) -> None:
        """As grub-install(8) does, but for both ways to boot, without asking for disks, and all of it in one piece."""
        place = self.root / FIRMWARE / grub.FOLDER
        self._write(WriteFile(f"/{GRUB}/early.cfg", grub.early(self.spec.layout)))
        (place.parent / grubenv.NAME).write_bytes(grubenv.environment())
        (self.root / _EFI.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        for kind, output in (("i386-pc", f"/{GRUB}/core.img"), ("x86_64-efi", _EFI)):
            making = ["grub-mkimage", f"--format={kind}", f"--prefix=/{grub.FOLDER}", f"--config=/{GRUB}/early.cfg"]
            self._inside(*making, f"--output={output}", *_ALWAYS, *_MODULES[kind])
        self._inside("cp", "/usr/lib/grub/i386-pc/boot.img", f"/{GRUB}/boot.img")
        (self.root / GRUB / "early.cfg").unlink()

    @property
    def _kernel(self) -> str:
        """Its version, as in the names of its files."""
        found = sorted((self.root / "boot").glob("vmlinuz-*"))
        if len(found) != 1:
            raise CommandError(Exit.SYSTEM, f"{self.root}/boot has {len(found)} of vmlinuz-*: accepted: one")
        return found[0].name.removeprefix("vmlinuz-")

    def _check_versions(self) -> None:
        found = lock.debians(lock.installed((self.root / "var/lib/dpkg/status").read_text()))
        if lines := lock.differences(versions(self.base), found):
            raise CommandError(Exit.WRONG_RESULT, f"{self.base}: {lock.told(lines, 'the base')}")

    def _inside(self, *command: str) -> None:
        self.runner.inside(self.root, command, {"SOURCE_DATE_EPOCH": str(self.spec.seconds)})

    def _write(self, file: WriteFile) -> None:
        path = self.root / file.path.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
        path.chmod(file.mode)

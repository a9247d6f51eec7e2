"""The door to the machine: RAUC, dpkg, systemd, and the other slot's file system."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from image.upgrade.bundle import Bundle, Slots
from image.upgrade.health import PROPERTIES, Verdict, asked, parse, verdict
from tributary.kernel import process
from tributary.settings.errors import CommandError, Exit

CONFIGURATION = Path("/etc/rauc/system.conf")
KEYRING = Path("/etc/rauc/keyring.pem")

_MODULES = ("nbd", "dm-verity")
"""RAUC reads a bundle at a URL by a device of the first, which the second opens. udev opens it as well, and the kernel
ends it when the last one has closed it: what has to be loaded in between comes too late (RAUC's pull request 1741).
"""
_PACKAGE = "tributary-image"
_LONG = 900.0
"""Seconds: a bundle may come over a slow line, and be written to a slow card."""
_done = partial(process.output, timeout=_LONG)
_NOT_SIGNED = "signature"  # in all that RAUC says of one that it does not accept


def slots() -> Slots:
    """Both slots; raises CommandError (69) if this is no image that has them."""
    if not CONFIGURATION.exists():
        raise CommandError(Exit.UNAVAILABLE, f"no {CONFIGURATION} here: accepted: an image with two slots")
    return Slots.of(json.loads(_done(["rauc", "status", "--output-format=json"])))


def bundle(where: str) -> Bundle:
    """The manifest of the bundle at ``where``, a file or a URL, after its signature was verified.

    Raises CommandError: 65 if it is not accepted, 66 if it is not there, 69 if this image accepts none at all.
    """
    if not KEYRING.exists():
        raise CommandError(
            Exit.UNAVAILABLE, f"no {KEYRING}: this image was built without --certificate, for no upgrades"
        )
    if "://" not in where and not Path(where).exists():
        raise CommandError(Exit.NO_INPUT, f"{where}: there is no such file")
    done = process.run(["rauc", "info", "--output-format=json", where], timeout=_LONG)
    if done.returncode == 0:
        return Bundle.of(json.loads(done.stdout))
    said = ((done.stderr or done.stdout).strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
    if _NOT_SIGNED in said:
        raise CommandError(Exit.BAD_DATA, f"{where}: not signed by anyone whom this image trusts ({KEYRING}): {said}")
    raise CommandError(
        Exit.NO_INPUT if "://" in where else Exit.BAD_DATA, f"{where}: cannot be read as a bundle: {said}"
    )


def install(where: str) -> None:
    """Write the bundle into the other slot, with progress on standard error; raises CommandError (71)."""
    process.run(["modprobe", "--all", *_MODULES])
    process.run(["udevadm", "settle", "--timeout=10"])
    done = subprocess.run(["rauc", "install", "--progress", where], stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise CommandError(Exit.SYSTEM, f"rauc install ended with {done.returncode}: see above; what runs is as it was")


def mark(state: str, slot: str) -> None:
    """Have RAUC mark ``slot`` (booted, other) as ``state`` (good, bad, active); raises CommandError (71)."""
    _done(["rauc", "status", f"mark-{state}", slot])


def restart() -> None:
    """Start the machine anew; raises CommandError (71)."""
    _done(["systemctl", "reboot"])


@contextmanager
def mounted(device: str, *, change: bool = False) -> Iterator[Path]:
    """The file system on ``device``, to look at, or to ``change``; raises CommandError (71), also if others still use
    it after a change: it is out of the folders then, but may not be written whole."""
    folder = mkdtemp(prefix="tributary-upgrade-")
    try:
        _mount(device, folder, change=change)
        try:
            yield Path(folder)
        finally:
            _unmount(folder, change=change)
    finally:
        with suppress(OSError):  # still mounted: what is in it is never to be taken away
            Path(folder).rmdir()


def _mount(device: str, folder: str, *, change: bool) -> None:
    try:
        _done(["mount", "-t", "ext4", "-o", "rw" if change else "ro,noload", device, folder])
    except CommandError:
        raise
    except BaseException:  # Ctrl-C and SIGTERM: it may be mounted by then
        process.run(["umount", "--lazy", folder])
        raise


def _unmount(folder: str, *, change: bool) -> None:
    if not change:  # whoever else looks at it does no harm
        _done(["umount", "--lazy", folder])
        return
    try:
        _done(["umount", folder])
    except BaseException:  # Ctrl-C and SIGTERM as well
        process.run(["umount", "--lazy", folder])
        raise


def version(root: Path = Path("/")) -> str:
    """Tributary's in the system below ``root``; empty if there is none."""
    admin = root / "var/lib/dpkg"
    done = process.run(["dpkg-query", f"--admindir={admin}", "--show", "--showformat=${Version}", _PACKAGE])
    return done.stdout.strip() if done.returncode == 0 else ""


def is_older(one: str, other: str) -> bool:
    """Whether version ``one`` is older than ``other``."""
    return process.run(["dpkg", "--compare-versions", one, "lt", other]).returncode == 0


def look() -> Verdict:
    """What there is to say of this start so far."""
    listing = ["systemctl", "list-unit-files", "--state=enabled", "--plain", "--no-legend", "tributary-*.service"]
    enabled = [line.split()[0] for line in process.run(listing).stdout.splitlines() if line.strip()]
    shown = _done(["systemctl", "show", f"--property={','.join(PROPERTIES)}", *asked(enabled)])
    return verdict(parse(shown))

"""Programs that a build runs on this machine, and the packages of Debian that they come in."""

import shutil

from tributary.settings.errors import CommandError, Exit

_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "ansible-playbook": "ansible-core",
    "sfdisk": "fdisk",
    "bmaptool": "bmap-tools",
    "fdtget": "device-tree-compiler",
    "mkfs.vfat": "dosfstools",
    "mcopy": "mtools",
    "mkfs.ext4": "e2fsprogs",
    "debugfs": "e2fsprogs",
    "zstd": "zstd",
    "unshare": "util-linux",
}


_OF_BUNDLES = {"rauc": "rauc", "mksquashfs": "squashfs-tools"}


def require(*, bundle: bool = False) -> None:
    """Raise CommandError (69) that names all that is missing, for a ``bundle`` as well."""
    needed = {**_TOOLS, **(_OF_BUNDLES if bundle else {})}
    missing = sorted({package for tool, package in needed.items() if shutil.which(tool) is None})
    if missing:
        raise CommandError(Exit.UNAVAILABLE, f"missing here: apt-get install {' '.join(missing)}")

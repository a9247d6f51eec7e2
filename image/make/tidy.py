"""What no image may have: keys and numbers that must be each box's own, and traces of how it was made."""

import os
from pathlib import Path

from image.make.stage import remove

_GONE = (
    # Each box makes its own: SSH's keys, random seeds, secrets, numbers.
    *("etc/ssh/ssh_host_*", "var/lib/systemd/random-seed", "var/lib/systemd/credential.secret"),
    *("var/lib/dbus/machine-id", "var/lib/dhcp*/*"),
    # Lists and caches, which are fetched anew; logs.
    *("var/lib/apt/lists/*", "var/cache/apt/*", "var/cache/debconf/*-old", "var/cache/ldconfig/*", "var/cache/man/*"),
    *("var/lib/apt/periodic/*",),
    # What was there before the last change, beside what is there now.
    *("var/lib/dpkg/*-old", "etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/subuid-", "etc/subgid-"),
    # Of those who made it.
    *("etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap", "etc/apt/sources.list"),
    *("etc/.pwd.lock", "usr/sbin/policy-rc.d", "root/.bash_history", "root/.cache"),
    *("run/*", "tmp/*", "var/tmp/*"),
)
_RESOLVER = "../run/systemd/resolve/stub-resolv.conf"


def tidy(root: Path, seconds: int) -> None:
    """Clean the system below ``root``; nothing in it is younger than ``seconds`` since 1970 afterwards."""
    for pattern in _GONE:
        for path in root.glob(pattern):
            remove(path)
    for path in [*root.glob("var/log/**/*")]:
        if path.is_symlink() or not path.is_dir():
            path.unlink()
    _write_numbers(root)
    _clamp(root, seconds)


def _write_numbers(root: Path) -> None:
    # Empty, and there: each box gets a number of its own. Without it a first boot would enable what presets say, and
    # Debian's say everything (machine-id(5)).
    (root / "etc/machine-id").write_text("")
    # No older than /usr: indices of it are made already, and a first start need not make them anew
    # (systemd-update-done.service(8)).
    for folder in ("etc", "var"):
        (root / folder / ".updated").write_text("")
    resolver = root / "etc/resolv.conf"
    resolver.unlink(missing_ok=True)
    resolver.symlink_to(_RESOLVER)


def _clamp(root: Path, seconds: int) -> None:
    """Python's modules keep their time, which their compiled form names: it would be taken for an old one."""
    for place, folders, names in os.walk(root):
        for name in (*folders, *names, "."):
            path = os.path.join(place, name)  # noqa: PTH118 - a hundred thousand of them
            if name.endswith(".py"):
                continue
            found = os.lstat(path).st_mtime
            if found > seconds:
                os.utime(path, (seconds, seconds), follow_symlinks=False)

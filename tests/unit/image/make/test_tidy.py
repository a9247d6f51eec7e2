"""What an image must not have goes, and nothing else."""

import os
from pathlib import Path

from image.make.tidy import tidy

SECONDS = 1_795_280_493
GONE = (
    *("etc/ssh/ssh_host_ed25519_key", "etc/ssh/ssh_host_ed25519_key.pub", "var/lib/systemd/random-seed"),
    *("var/lib/apt/lists/deb.debian.org_Packages", "var/cache/apt/pkgcache.bin", "var/log/dpkg.log", "etc/shadow-"),
    *("var/log/squid/cache.log", "usr/sbin/policy-rc.d", "etc/apt/sources.list", "tmp/x", "var/lib/dpkg/status-old"),
)
KEPT = (
    *("etc/ssh/sshd_config", "etc/shadow", "var/lib/dpkg/status", "etc/apt/sources.list.d/debian.sources"),
    *("usr/lib/x.py", "usr/bin/x", "var/lib/apt/extended_states"),
)


def system(root: Path) -> Path:
    for path in (*GONE, *KEPT, "etc/machine-id"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("x")
    return root


def test_keys_numbers_lists_and_logs_go_and_the_rest_stays_as_old_as_the_commit(tmp_path: Path) -> None:
    tidy(system(tmp_path), SECONDS)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file() or path.is_symlink()}
    assert left == {*KEPT, "etc/machine-id", "etc/resolv.conf", "etc/.updated", "var/.updated"}
    assert (tmp_path / "etc/machine-id").read_text() == ""
    assert (tmp_path / "var/log/squid").is_dir()
    root = system(tmp_path)
    tidy(root, SECONDS)
    assert {int((root / path).stat().st_mtime) for path in ("usr", "etc/.updated", "var/.updated")} == {SECONDS}


def test_nothing_is_younger_than_the_commit_but_modules_which_their_compiled_form_names(tmp_path: Path) -> None:
    root = system(tmp_path)
    os.utime(root / "usr/bin/x", (SECONDS + 9, SECONDS + 9))
    os.utime(root / "usr/lib/x.py", (SECONDS + 9, SECONDS + 9))
    os.utime(root / "etc/shadow", (SECONDS - 9, SECONDS - 9))
    tidy(root, SECONDS)
    times = {path: int((root / path).stat().st_mtime) for path in ("usr/bin/x", "usr/lib/x.py", "etc/shadow")}
    assert times == {"usr/bin/x": SECONDS, "usr/lib/x.py": SECONDS + 9, "etc/shadow": SECONDS - 9}

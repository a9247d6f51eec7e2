"""Upgrades from inside: bundles of another disk, by file and by URL."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from network import run

BUNDLES = Path("/run/bundles")
HAND_MADE = Path("/etc/tributary/by-hand.toml")
STATE = Path("/var/lib/tributary/throttler/kept")


def said(*words: str) -> dict[str, Any]:
    """What tributary-upgrade ends with, and says."""
    done = subprocess.run(["tributary-upgrade", *words], capture_output=True, text=True, check=False, timeout=1200)
    return {"code": done.returncode, "out": done.stdout.strip(), "err": done.stderr.strip()}


def mount() -> None:
    if not BUNDLES.is_mount():
        run(f"mkdir -p {BUNDLES}")
        run(f"mount -o ro /dev/disk/by-label/bundles {BUNDLES}")


def slots() -> dict[str, Any]:
    """Which system runs, and what it has kept."""
    keys = sorted(Path("/etc/ssh").glob("ssh_host_*_key.pub"))
    return {
        "status": json.loads(run("tributary-upgrade status --json")),
        "command": Path("/proc/cmdline").read_text(),
        "loader": loader(),
        "host_keys": {key.name: key.read_text() for key in keys},
        "hand_made": HAND_MADE.read_text() if HAND_MADE.exists() else "",
        "state": STATE.read_text() if STATE.exists() else "",
        "boots": len(run("journalctl --list-boots --no-pager --quiet").splitlines()),
        "mounts": run("findmnt --noheadings --list --output=TARGET,SOURCE --types=ext4,vfat").splitlines(),
    }


def loader() -> list[str]:
    """GRUB's variables; what a Raspberry Pi's firmware reads, and its slots' states."""
    card = Path("/boot/firmware")
    if (card / "grub").exists():
        return run(f"grub-editenv {card}/grub/grubenv list").splitlines()
    texts = {name: card / f"{name}.txt" for name in ("config", "back", "slots")}
    return [f"{name}: {line}" for name, path in texts.items() if path.exists() for line in path.read_text().split("\n")]


def kernel() -> dict[str, Any]:
    """What hooks do with a new initramfs, and with a new kernel; it is the old one with four zeros behind it."""
    release = run("uname -r").strip()
    made, card = Path(f"/boot/initrd.img-{release}"), Path("/boot/firmware")
    made.write_bytes(made.read_bytes() + bytes(4))
    run(f"run-parts --arg={release} --arg={made} /etc/initramfs/post-update.d")
    taken = [path.parent.name for path in card.glob("?/initrd.img") if path.read_bytes() == made.read_bytes()]
    for hook in ("z50-raspi-firmware", "zz-tributary", "zz-tributary-firmware"):
        run(f"env DEB_MAINT_PARAMS=configure /etc/kernel/postinst.d/{hook} {release} /boot/vmlinuz-{release}")
    patterns = ("vmlinuz*", "initrd*", "*.dtb", "cmdline.txt", "*/*.new")
    return {"taken": taken, "astray": [path.name for pattern in patterns for path in card.glob(pattern)], **slots()}


def refusals() -> dict[str, Any]:
    """What is not accepted, and what is left as it was."""
    mount()
    refused = {path.stem: said("install", str(path)) for path in sorted(BUNDLES.glob("refused-*.raucb"))}
    return {
        "refused": refused,
        "missing": said("install", "/nowhere.raucb"),
        "back": said("back"),
        "older": said("install", "--allow-older", "--check", str(BUNDLES / "refused-older.raucb")),
        "status": json.loads(run("tributary-upgrade status --json")),
    }


def broken() -> dict[str, Any]:
    """A version without a converter, after something was made by hand, and after something was counted."""
    mount()
    HAND_MADE.write_text("# by hand\n")
    STATE.write_text("counted\n")
    return {
        "check": said("install", "--check", str(BUNDLES / "broken.raucb")),
        **install(str(BUNDLES / "broken.raucb")),
    }


def upgrade() -> dict[str, Any]:
    """A good version, by HTTP."""
    mount()
    with served(BUNDLES) as address:
        return install(f"{address}/good.raucb")


def install(where: str) -> dict[str, Any]:
    ahead = said("install", "--dry-run", where)
    return {
        "ahead": ahead,
        "install": said("install", where),
        "after": json.loads(run("tributary-upgrade status --json")),
    }


def back() -> dict[str, Any]:
    """The way back."""
    return {"back": said("back"), "after": json.loads(run("tributary-upgrade status --json"))}


class Ranges(BaseHTTPRequestHandler):
    """Files of BUNDLES, whole or in part (RFC 9110 section 14), which a stream is read by."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """RFC 9110 section 9.3.2."""
        self.begin()

    def do_GET(self) -> None:
        """RFC 9110 section 9.3.1."""
        first, last = self.begin()
        with (BUNDLES / self.path.lstrip("/")).open("rb") as file:
            file.seek(first)
            self.wfile.write(file.read(last - first + 1))

    def begin(self) -> tuple[int, int]:
        size = (BUNDLES / self.path.lstrip("/")).stat().st_size
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or "")
        first, last = (int(asked[1]), min(int(asked[2] or size - 1), size - 1)) if asked else (0, size - 1)
        self.send_response(206 if asked else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if asked:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        return first, last

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def served(_: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ranges) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()

"""The machine's network interfaces that are devices, as /sys shows them, and its addresses. Changes nothing."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tributary.kernel.process import QUICK, run
from tributary.settings.errors import CommandError

_ETHERNET = "1"  # ARPHRD_ETHER of linux/if_arp.h; wireless interfaces have it, too


class Kind(StrEnum):
    """What an interface is, in words."""

    WIRED = "wired"
    WIRELESS = "Wi-Fi"
    OTHER = "modem"


@dataclass(frozen=True)
class Interface:
    """``carrier``: whether anything is connected. ``built_in``: on the board, or in a slot of it; nothing on USB is."""

    name: str
    kind: Kind
    mac: str
    carrier: bool
    built_in: bool


def interfaces(sys: Path = Path("/sys")) -> tuple[Interface, ...]:
    """All of them by name: bridges, tunnels and the like have no device."""
    found = [path for path in sorted((sys / "class/net").glob("*")) if (path / "device").exists()]
    return tuple(
        Interface(path.name, _kind(path), _text(path / "address"), _text(path / "carrier") == "1", _is_built_in(path))
        for path in found
    )


def _kind(path: Path) -> Kind:
    if (path / "phy80211").exists():
        return Kind.WIRELESS
    return Kind.WIRED if _text(path / "type") == _ETHERNET else Kind.OTHER


def _is_built_in(path: Path) -> bool:
    """By its bus. A Raspberry Pi 3 has its port on USB, too, and the board's device tree tells of that one."""
    device = (path / "device").resolve()
    described = any((each / "of_node").exists() for each in (device, device.parent))
    return (device / "subsystem").resolve().name != "usb" or described


def _text(path: Path) -> str:
    """Empty if it is not there; the carrier of an interface that is down cannot be read (EINVAL)."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def own_addresses(interface: str = "") -> tuple[str, ...]:
    """Those of global scope, without temporary ones (RFC 8981), of one ``interface`` or of all that are up.

    Empty if ip(8) or the interface is not here. For an address of another scope Debian 13's shows an empty object.
    """
    which = ("dev", interface) if interface else ("up",)
    try:
        shown = run(["ip", "-json", "address", "show", *which, "scope", "global"], timeout=QUICK)
    except CommandError:
        return ()
    if shown.returncode:
        return ()
    found = [each for link in json.loads(shown.stdout or "[]") for each in link.get("addr_info", [])]
    return tuple(each["local"] for each in found if "local" in each and not each.get("temporary"))

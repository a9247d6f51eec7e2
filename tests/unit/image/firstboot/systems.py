"""Folders that hold as much of a system as firstboot needs, keys, and the golden cards with their facts."""

import base64
import os
import struct
from pathlib import Path

from image.firstboot.actions import Action, Owner, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.plan import plan
from image.firstboot.reading import read
from image.firstboot.settings import Role

GOLDEN = Path(__file__).parent / "golden"
SHIPPED = Path(__file__).parents[4] / "image/firstboot/tributary.toml"
FIREWALL = Path(__file__).parents[4] / "kernel-config/tributary-firewall.nft"

UNITS = (
    *(
        f"tributary-{part}.service"
        for part in ("squid", "converter", "throttler", "gateway", "console", "router", "lan", "first-start")
    ),
    "tributary-doctor-fix.socket",
    *("dnsmasq.service", "systemd-resolved.service", "tributary-firewall.service", "ssh.service"),
    *("wpa_supplicant@.service", "hostapd@.service", "ppp@.service", "ModemManager.service", "NetworkManager.service"),
)
YESCRYPT = "$y$j9T$8SQ7ULJHDbWyTOQMi5T6n0$pa.IU0TyFAOmSxaM.xfc0IAQ3qS5CFvHA7AdK35uaBA"
SHA512 = "$6$zbVWNACiMVlwU.yD$RknYBtFxApRfiAo33CqSnBBoAUnSWDTPLBjOnWI4u.pJZEf2aUzwyHJoECPCcZhVOi.4y/4yltjLyNWIcPoqn1"


def facts(role: Role = Role.GATEWAY, **others: object) -> Facts:
    """Of a Raspberry Pi with one wired and one wireless interface."""
    given: dict[str, object] = {
        "wired": ("end0",),
        "wireless": ("wlan0",),
        "built_in": ("end0",),
        "units": frozenset(UNITS),
        "steering_group": 990,
        "code": "abcdefgh",
        **others,
    }
    return Facts(role, "/home/tributary", Owner(1000, 1000), **given)  # type: ignore[arg-type]


def planned(card: str, given: Facts | None = None) -> tuple[Action, ...]:
    """What a card comes to: for a home router, unless there are other facts ``given``."""
    known = given or facts(Role.ROUTER)
    return plan(read(card.encode(), known.role), known)


def files_of(card: str, given: Facts | None = None) -> list[WriteFile]:
    """Its files."""
    return [each for each in planned(card, given) if isinstance(each, WriteFile)]


def texts(card: str, given: Facts | None = None) -> dict[str, str]:
    """Their texts, by their paths."""
    return {each.path: each.text for each in files_of(card, given)}


def string(data: bytes) -> bytes:
    """A string as RFC 4251 section 5 has it."""
    return struct.pack(">I", len(data)) + data


def public_key(kind: str = "ssh-ed25519", *parts: bytes, comment: str = "") -> str:
    """A line for authorized_keys; by default an Ed25519 key."""
    blob = b"".join(map(string, (kind.encode(), *(parts or (bytes(range(32)),)))))
    return f"{kind} {base64.b64encode(blob).decode()} {comment}".strip()


def make_system(root: Path) -> Path:
    """A system's folder: accounts, unit files, and the boot partition's folder. Its user is who runs this."""
    (root / "boot/firmware").mkdir(parents=True)
    units = root / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for name in UNITS:
        (units / name).write_text("[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n")
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(
        f"root:x:0:0:root:/root:/bin/bash\ntributary:x:{os.getuid()}:{os.getgid()}::/home/tributary:/bin/bash\n"
    )
    shadow = root / "etc/shadow"
    shadow.write_text("root:*:20000:0:99999:7:::\ntributary:!:20000:0:99999:7:::\n")
    shadow.chmod(0o640)
    return root

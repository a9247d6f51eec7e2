"""What there is to build: boards, roles, and the packages of Debian that each takes. Pure."""

from dataclasses import dataclass
from enum import StrEnum

SUITE = "trixie"
MIB = 1 << 20


class Role(StrEnum):
    """What the image is made for."""

    GATEWAY = "gateway"
    ROUTER = "router"

    @property
    def packages(self) -> tuple[str, ...]:
        """Of Debian: what the parts of this role depend on, so that they come in without a network."""
        return _ROLES[self][0]

    @property
    def parts(self) -> tuple[str, ...]:
        """Packages of Tributary."""
        return tuple(f"tributary-{part}" for part in ("common", *_ROLES[self][1], "console", "image"))


# Of a home router whose links are network interfaces by themselves.
_PLAIN_LINKS = ("dnsmasq", "usb-modeswitch", "wireguard-tools")
_LINKS = (
    # Tunnels; PPPoE; modems, by those two; the LAN's access point.
    *("wireguard-tools", "ppp", "modemmanager", "network-manager", "hostapd"),
    # usb-modeswitch: many LTE sticks are a CD-ROM with drivers until they are told. usbmuxd: an iPhone shares its
    # network with whom it trusts.
    *("usb-modeswitch", "usbmuxd"),
)
_ROLES = {
    Role.GATEWAY: (
        ("conntrack", "libnftables1", "mptcpize", "squid", *_PLAIN_LINKS),
        ("squid", "converter", "throttler", "gateway", "router"),
    ),
    Role.ROUTER: (("dnsmasq", *_LINKS), ("converter", "router")),
}


@dataclass(frozen=True)
class Board:
    """A kind of machine: as Debian names its processor, its own packages, and its boot partition.

    ``boot_bytes`` is the size of the FAT partition, and ``gpt`` the kind of partition table. Firmware of the Raspberry
    Pi reads GPT from model 4 on, and the other one, MBR, in all models.
    """

    name: str
    architecture: str
    packages: tuple[str, ...]
    gpt: bool
    boot_bytes: int
    imager: bool = False  # Raspberry Pi Imager writes its images
    slot_bytes: int = 2048 * MIB
    """Of each of two root partitions, of which an upgrade writes the one that does not run. A system takes 0.7 to 1.2
    GiB; it also needs room for a second kernel and for what apt fetches."""

    def kind(self, role: Role) -> str:
        """What images of all versions have in common."""
        return f"{role}-{self.name}"

    def all_packages(self, role: Role) -> tuple[str, ...]:
        """All that mmdebstrap is to install, sorted."""
        return tuple(sorted({*_EVERYWHERE, *self.packages, *role.packages}))


_EVERYWHERE = (
    # The system itself, and the first boot: growpart, resize2fs, fsck for both partitions.
    *("systemd", "systemd-sysv", "systemd-resolved", "systemd-timesyncd", "libpam-systemd", "libnss-resolve", "dbus"),
    *("udev", "kmod", "initramfs-tools", "cloud-guest-utils", "fdisk", "e2fsprogs", "dosfstools", "zstd"),
    # Logins, networks, the firewall, unattended updates.
    *("openssh-server", "sudo", "iproute2", "nftables", "procps", "netbase", "wpasupplicant", "wireless-regdb", "iw"),
    *("ca-certificates", "logrotate", "python3", "unattended-upgrades"),
    # The hash of the console's password.
    "libargon2-1",
    # Upgrades: rauc writes the other slot.
    *("rauc", "rauc-service"),
    # For whoever looks after the box.
    *("bsdextrautils", "curl", "ethtool", "iputils-ping", "less", "nano", "tcpdump", "whois"),
)
BOARDS = {
    board.name: board
    for board in (
        Board(
            "x86",
            "amd64",
            # No grub-pc or grub-efi-amd64: each would install one way to boot anew with every upgrade, and take the
            # other's place. No grub2-common, which would write a menu: the disk's own names links to the newest kernel
            # of each slot.
            (
                *("linux-image-amd64", "grub-pc-bin", "grub-efi-amd64-bin"),
                *("amd64-microcode", "intel-microcode", "firmware-realtek"),
            ),
            gpt=True,
            boot_bytes=128 * MIB,
        ),
        Board(
            "rpi",
            "arm64",
            ("linux-image-arm64", "raspi-firmware", "firmware-brcm80211"),
            gpt=False,
            # Firmware, and kernel and initramfs of both slots; those of one twice while they are replaced.
            boot_bytes=512 * MIB,
            imager=True,
        ),
    )
}

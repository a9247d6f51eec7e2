"""The LAN's rules for nft(8), and its DHCP and DNS for dnsmasq(8). Pure."""

from pathlib import Path

from image.firstboot.settings import Lan
from image.firstboot.values import Target
from squid.targets import OPENABLE
from tributary.settings.templates import rendered

PORT = 8300
"""Of the converter's listener for all that devices send to the Internet by TCP."""

TAKEN = 0x1
"""The mark of packets that are for this listener (tributary-lan.service)."""

_TEMPLATES = Path(__file__).parent


def rules(lan: Lan, gateway: Target) -> str:
    """The table ``tributary-lan``."""
    return rendered(
        _TEMPLATES / "lan.nft.j2",
        lan=lan,
        gateway=gateway.address,
        port=PORT,
        taken=f"{TAKEN:#x}",
        private=[str(network) for network in OPENABLE if network.version == 4],
    )


def names(lan: Lan, hostname: str) -> str:
    """What devices are told."""
    return rendered(_TEMPLATES / "dnsmasq.conf.j2", lan=lan, hostname=hostname)

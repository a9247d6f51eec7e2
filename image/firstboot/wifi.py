"""Wi-Fi: a network to join, for wpa_supplicant.conf(5); the LAN's own, for hostapd(8), with its bridge. Pure."""

import hashlib
from collections.abc import Iterator

from image.firstboot.access_point import CENTRES, FIRST_WIRELESS, LOW, AccessPoint
from image.firstboot.actions import PRIVATE, Action, EnableUnit, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.settings import Card, Wifi
from image.firstboot.texts import filled, sections, unneeded

BRIDGE = "br-lan"
"""The LAN's interface where it is wired and wireless."""
_NETDEV = sections(
    ("NetDev", [("Name", BRIDGE), ("Kind", "bridge")]), ("Bridge", [("STP", "no"), ("ForwardDelaySec", 0)])
)
_ROUNDS = 4096
_BYTES = 32


def interface(card: Card, facts: Facts) -> str:
    """The interface that is the access point."""
    said = card.access_point.interface if card.access_point else None
    free = [name for name in facts.wireless if not any(wan.may_be(name) for wan in card.wan.values())]
    mine = [card.lan.interface] if card.lan and card.lan.interface in free else free
    return said or next(iter(mine), FIRST_WIRELESS)


def bridged(card: Card, facts: Facts) -> Card:
    """The card for whoever serves the LAN: with the bridge as the LAN's interface, where there is one."""
    if card.lan is None or not _has_bridge(card, facts):
        return card
    return card.model_copy(update={"lan": card.lan.model_copy(update={"interface": BRIDGE})})


def _has_bridge(card: Card, facts: Facts) -> bool:
    """Whether the LAN has an interface beside the access point's."""
    return card.access_point is not None and card.lan is not None and card.lan.interface != interface(card, facts)


def access_point(card: Card, facts: Facts, folder: str) -> Iterator[Action]:
    """Files and unit; ``folder`` is systemd-networkd's."""
    if card.access_point is None or card.lan is None:
        return
    name, has_bridge = interface(card, facts), _has_bridge(card, facts)
    if has_bridge:
        yield WriteFile(f"{folder}/20-tributary-bridge.netdev", _NETDEV)
        silent = (("LinkLocalAddressing", "no"), ("IPv6AcceptRA", "no"))
        port = unneeded(card.lan.interface, ("Bridge", BRIDGE), *silent)
        yield WriteFile(f"{folder}/21-tributary-lan-port.network", port)
    path = f"/etc/hostapd/{name}.conf"
    # hostapd adds its interface to the bridge: before it is an access point, the kernel refuses that.
    yield WriteFile(path, configuration(card.access_point, name, BRIDGE if has_bridge else None), PRIVATE)
    # A restart sends all devices away for seconds.
    yield EnableUnit(f"hostapd@{name}.service", reads=(path,))


def configuration(point: AccessPoint, interface: str, bridge: str | None) -> str:
    """The text of hostapd.conf for ``point`` on ``interface``, which joins ``bridge``, if any."""
    known = {"low": LOW, "centres": CENTRES, "key": key(point.ssid, point.passphrase)}
    return filled("hostapd.conf.j2", point=point, interface=interface, bridge=bridge, **known)


def key(ssid: str, passphrase: str) -> str:
    """The pre-shared key, 64 hexadecimal digits: PBKDF2 with HMAC-SHA1, 4096 rounds (IEEE 802.11i, annex H.4).

    A passphrase of 64 digits is that key already.
    """
    if len(passphrase) == 2 * _BYTES:
        return passphrase
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode("ascii"), ssid.encode(), _ROUNDS, _BYTES).hex()


def links_without_network(card: Card) -> Iterator[str]:
    """What is missing for wireless links, by their interfaces' names (systemd.net-naming-scheme(7)).

    It is no error: wpa_supplicant.conf written by hand joins what a card cannot describe, such as open networks.
    """
    for name, wan in card.wan.items():
        is_wireless = wan.interface is not None and wan.interface.startswith("wl")
        joins = card.wifi and (card.wifi.interface is None or wan.may_be(card.wifi.interface))
        if is_wireless and not joins:
            yield f"wan.{name} joins no network: add [wifi] for {wan.interface}, unless you have set that up yourself."


def joining(wifi: Wifi) -> str:
    """The text of wpa_supplicant.conf."""
    return filled("wpa_supplicant.conf.j2", wifi=wifi, key=key(wifi.ssid, wifi.passphrase))

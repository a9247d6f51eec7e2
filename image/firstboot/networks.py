"""Interfaces: files for systemd-networkd and wpa_supplicant. Pure.

Each file gives its default routes a metric of its own. With the same one, the kernel would keep only the route that
came last (the flag NLM_F_REPLACE, which networkd sets), and a link would be lost. All are above the metrics 1 to 8 of
tributary-router, which chooses among the links.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from image.firstboot import modem, names, pppoe, vlans, wifi
from image.firstboot.actions import PRIVATE, Action, EnableUnit, WriteFile
from image.firstboot.facts import Facts
from image.firstboot.settings import Card, Lan, Network
from image.firstboot.texts import Said, sections, unneeded
from image.firstboot.vlans import Vlan
from image.firstboot.wan import Wan
from tributary.prefix_delegation import TOKEN

_FOLDER = "/etc/systemd/network"
_FIRST_METRIC = 1024
_STEP = 16
_BY_DHCP = Network.model_validate({})

_DAEMON = """\
# Rules and routes that others made stay: networkd would take those of tributary-router away whenever it starts.
[Network]
ManageForeignRoutingPolicyRules=no
ManageForeignRoutes=no
ManageForeignNextHops=no
"""
_ONLINE = """\
# One link is enough to go on with. Others may be plugged in later.
[Service]
ExecStart=
ExecStart=/usr/lib/systemd/systemd-networkd-wait-online --any --timeout=30
"""


_ASKS = "always"
"""Also where the provider's router does not say that there are addresses by DHCPv6."""
_DELEGATED = [
    # Of the first /64 one address stays on the link, by which tributary-router knows it; devices have the others.
    ("UplinkInterface", ":self"),
    ("SubnetId", "0"),
    ("Token", TOKEN),
    ("Announce", "no"),
    ("ManageTemporaryAddress", "no"),
]


@dataclass(frozen=True)
class _Place:
    """One file: its name without number, which interfaces it is for, and how these get their addresses.

    Some have a ``link``, the name of [wan.NAME], that is more than an interface with addresses which stand on the card.
    """

    name: str
    match: Mapping[str, str]
    network: Network
    link: str | None = None


def networks(card: Card, facts: Facts) -> Iterator[Action]:
    """All that the card says of interfaces."""
    yield WriteFile("/etc/systemd/networkd.conf.d/50-tributary.conf", _DAEMON)
    yield WriteFile("/etc/systemd/system/systemd-networkd-wait-online.service.d/50-tributary.conf", _ONLINE)
    lan = wifi.bridged(card, facts).lan
    tagged = _tagged(card, lan)
    for each in tagged:
        yield WriteFile(f"{_FOLDER}/20-tributary-{each.name}.netdev", each.netdev)
    if lan is not None:
        own = (("Address", lan.address), ("ConfigureWithoutCarrier", "yes"), ("IPv6AcceptRA", "no"))
        yield WriteFile(
            f"{_FOLDER}/20-tributary-lan.network", unneeded(lan.interface, *own, *vlans.lines(tagged, lan.interface))
        )
        yield from wifi.access_point(card, facts, _FOLDER)
    domains = names.asked_of_links(card.enrolments, card.other_names) if lan is not None and card.target else ()
    places = _places(card, facts)
    named = {place.match.get("Name") for place in places} | {lan.interface if lan else None}
    for below in dict.fromkeys(each.below for each in tagged if each.below not in named):
        yield WriteFile(f"{_FOLDER}/25-tributary-{below}.network", vlans.bare(below, vlans.lines(tagged, below)))
    for number, place in enumerate(places):
        wan, metric = card.wan[place.link] if place.link else None, _FIRST_METRIC + _STEP * number
        asks = card.asks_links and place.link is not None
        file, more = f"{_FOLDER}/{30 + number}-tributary-{place.name}", vlans.lines(tagged, place.match.get("Name", ""))
        yield from _place(file, place, wan, Said(metric, domains, asks), more)
    if card.wifi is not None:
        interface = wireless(card, facts)
        path = f"/etc/wpa_supplicant/wpa_supplicant-{interface}.conf"
        yield WriteFile(path, wifi.joining(card.wifi), PRIVATE)
        # A restart cuts the link for seconds.
        yield EnableUnit(f"wpa_supplicant@{interface}.service", reads=(path,))


def _tagged(card: Card, lan: Lan | None) -> Sequence[Vlan]:
    names = (*(wan.interface for wan in card.wan.values()), *card.network, lan.interface if lan else None)
    keys = [
        Vlan(vlans.interface(name), wan.interface, number)
        for name, wan in card.wan.items()
        if wan.interface and (number := wan.pppoe.vlan if wan.pppoe else wan.vlan) is not None
    ]
    return [*keys, *vlans.named(names)]


def wireless(card: Card, facts: Facts) -> str:
    """The interface that joins the wireless network."""
    said = card.wifi.interface if card.wifi else None
    return said or next(iter(facts.wireless), "wlan0")


def _places(card: Card, facts: Facts) -> Sequence[_Place]:
    """In the order in which networkd tries them: the first whose [Match] fits an interface is the one for it."""
    named = set(card.network) | {wan.interface for wan in card.wan.values() if wan.vlan is None}
    places = [_Place(name, {"Name": name}, network, _link(card, name)) for name, network in card.network.items()]
    others = {name: wan for name, wan in card.wan.items() if wan.interface not in card.network}
    places += [_Place(f"wan-{name}", _match(name, wan), _BY_DHCP, name) for name, wan in _precise_first(others)]
    if card.wifi is not None and (name := wireless(card, facts)) not in named:
        places.append(_Place("wifi", {"Name": name}, _BY_DHCP))
    # The first-start page takes a port where nobody answers DHCP for the LAN's, so that has to be asked everywhere.
    if not card.wan and (card.asks_by_page or not card.network):
        # Physical Ethernet, not what programs make: bridges and veth have a Kind (systemd.network(5)).
        places.append(_Place("ethernet", {"Type": "ether", "Kind": "!*"}, _BY_DHCP))
    return places


def _link(card: Card, interface: str) -> str | None:
    """The link whose provider is asked for a prefix where ``interface`` has a table of its own."""
    fitting = ((name, wan) for name, wan in _precise_first(card.wan) if wan.may_be(interface))
    return next((name for name, wan in fitting if card.may_bring_a_prefix(wan)), None)


def _place(
    file: str, place: _Place, wan: Wan | None, said: Said, tagged: Sequence[tuple[str, object]]
) -> Iterator[Action]:
    if wan and wan.pppoe and wan.interface:
        if said.asks_for_a_prefix:
            yield WriteFile(f"{file}-ppp.network", _dialled(pppoe.interface(str(place.link)), said))
        yield from pppoe.link(file, str(place.link), wan.interface, wan.pppoe, said, tagged)
    elif wan and wan.modem:
        yield from modem.link(str(place.link), wan.modem, said)
    else:
        yield WriteFile(f"{file}.network", _upstream(place, said, tagged))


def _precise_first(wans: Mapping[str, Wan]) -> Iterable[tuple[str, Wan]]:
    """Rules with a MAC address or a place first, then the least open ones: 'e*' must not take 'end0' from its own."""

    def openness(item: tuple[str, Wan]) -> tuple[bool, bool, int]:
        pattern = item[1].interface or "*"
        return not (item[1].mac or item[1].bus), "*" in pattern or "?" in pattern, -len(pattern)

    return sorted(wans.items(), key=openness)


def _match(name: str, wan: Wan) -> Mapping[str, str]:
    if wan.vlan is not None:
        return {"Name": vlans.interface(name)}
    said = {"Name": wan.interface, "Driver": wan.driver, "MACAddress": wan.mac, "Path": _path(wan.bus)}
    return {key: value for key, value in said.items() if value}


def _path(bus: str | None) -> str | None:
    """What udev calls the place (ID_PATH): 'usb-HOST-PORT' of ethtool is '...HOST-usb-0:PORT:1.0' there."""
    if bus is None:
        return None
    host, dash, port = bus.removeprefix("usb-").rpartition("-")
    return f"*{host}-usb-*:{port}:*" if dash else f"*{bus}*"


def _upstream(place: _Place, said: Said, tagged: Sequence[tuple[str, object]]) -> str:
    network, metric, domains = place.network, said.metric, said.domains
    # A router's word adds to fixed addresses of the other IP version, and to none of its own.
    listens = not any(each.version == 6 for each in network.address)
    asks = _ASKS if said.asks_for_a_prefix else None
    # Known by its MAC address, the box keeps its lease when the card is written anew.
    leased = [("ClientIdentifier", "mac"), ("RouteMetric", metric), ("UseHostname", "no")]
    return sections(
        ("Match", place.match.items()),
        ("Network", [
            ("DHCP", "no" if network.is_static else "yes"),
            ("IPv6AcceptRA", "yes" if listens else "no"),
            *(("Address", each) for each in network.address),
            *(("DNS", each) for each in network.dns),
            *_names(domains),
            ("DHCPPrefixDelegation", "yes" if said.asks_for_a_prefix else None),
            *tagged,
        ]),
        *(("Route", [("Gateway", each), ("Metric", metric)]) for each in network.gateway),
        *([] if network.is_static else [("DHCPv4", leased)]),
        *([("IPv6AcceptRA", [("RouteMetric", metric), ("DHCPv6Client", asks)])] if listens else []),
        *([("DHCPPrefixDelegation", _DELEGATED)] if said.asks_for_a_prefix else []),
    )  # fmt: skip


def _dialled(interface: str, said: Said) -> str:
    """What pppd made, with the addresses that it gave: asked for a prefix alone."""
    return sections(
        ("Match", [("Name", interface)]),
        ("Link", [("RequiredForOnline", "no")]),
        ("Network", [
            ("KeepConfiguration", "yes"),
            # The address itself is pppd's; without the word networkd hears no routers.
            ("LinkLocalAddressing", "ipv6"),
            ("DHCP", "ipv6"),
            ("IPv6AcceptRA", "yes"),
            *_names(said.domains),
            ("DHCPPrefixDelegation", "yes"),
        ]),
        ("IPv6AcceptRA", [("RouteMetric", said.metric), ("DHCPv6Client", _ASKS)]),
        ("DHCPPrefixDelegation", _DELEGATED),
    )  # fmt: skip


def _names(domains: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Asked of the link alone, in clear, whatever systemd-resolved does with its own servers: its rarely speak TLS."""
    if domains:
        yield "Domains", " ".join(f"~{each}" for each in domains)
        yield "DNSDefaultRoute", "no"
        yield "DNSOverTLS", "no"

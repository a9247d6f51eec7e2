from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, ip_address

import pytest

from router import diagnosis
from router.identifiers import MAIN, PROTOCOL
from router.links.model import Link, Reason, links
from tests.unit.router.house import DHCP, DSL, LTE, SETTINGS, Plug, cut, house, settings
from tributary.kernel.state import Interface, KernelState, Route


def named(observed: KernelState, text: str = SETTINGS) -> dict[str, Link]:
    return {link.name: link for link in links(settings(text), observed)}


def states(observed: KernelState, text: str = SETTINGS) -> dict[str, str | None]:
    return {name: link.down for name, link in named(observed, text).items()}


def test_a_link_with_carrier_address_and_default_route_is_up() -> None:
    found = named(house(DSL, LTE))
    assert (found["dsl"].down, found["lte"].down) == (None, None)
    assert [(way.version, str(way.gateway)) for way in found["lte"].next_hops] == [
        (4, "10.64.0.1"),
        (6, "2001:db8:2::1"),
    ]


@pytest.mark.parametrize(
    ("plugs", "reason"),
    [
        ((LTE,), Reason.NO_INTERFACE),
        ((replace(DSL, interface=replace(DSL.interface, is_up=False, has_carrier=False)), LTE), Reason.SWITCHED_OFF),
        ((cut(DSL), LTE), Reason.NO_CARRIER),
        ((replace(DSL, addresses=()), LTE), Reason.NO_ADDRESS),
        ((replace(DSL, gateways=()), LTE), Reason.NO_GATEWAY),
        ((replace(DSL, gateways=("fd00::1",)), LTE), Reason.NO_GATEWAY),
    ],
)
def test_what_is_missing_is_the_reason_why_a_link_is_down(plugs: tuple[Plug, ...], reason: Reason) -> None:
    assert states(house(*plugs)) == {"dsl": reason, "lte": None}


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ('interface = "usb?"', "usb0"),
        ('interface = "wlan*"', None),
        ('driver = "cdc_*"', "usb0"),
        ('mac = "02:00:5E:*"', "usb0"),
        ('bus = "usb-*-1.2"', "usb0"),
        ('driver = "cdc_ether"\nbus = "usb-*-1.3"', None),
    ],
)
def test_an_interface_is_found_when_every_given_rule_fits(rule: str, found: str | None) -> None:
    stick = Interface(3, "usb0", macs=("02:00:5e:10:00:01",), driver="cdc_ether", bus="usb-0000:01:00.0-1.2")
    link = named(house(DSL, Plug(stick)), f"[wan.lte]\n{rule}")["lte"]
    assert (link.interface.name if link.interface else None) == found


def test_the_oldest_of_two_that_fit_is_taken_and_the_next_link_gets_the_other() -> None:
    second = Plug(Interface(9, "usb0"), ("10.65.0.2/30",), ("10.65.0.1",))
    first = replace(LTE, interface=replace(LTE.interface, name="usb1"))
    text = '[wan.a]\ninterface = "usb*"\n[wan.b]\ninterface = "usb*"'
    found = named(house(second, first), text)
    assert {name: link.interface and link.interface.name for name, link in found.items()} == {"a": "usb1", "b": "usb0"}


def test_loopback_and_ports_of_a_bridge_are_never_a_link() -> None:
    port = Plug(Interface(5, "eth5", is_enslaved=True))
    assert states(house(port), '[wan.a]\ninterface = "*"') == {"a": Reason.NO_INTERFACE}


def test_links_rank_by_use_then_metered_ones_come_last() -> None:
    text = "\n".join(
        f'[wan.{use}{metered}]\ninterface = "{use}{metered}"\nuse = "{use}"\nmetered = {metered}\npriority = {rank}'
        for rank, (use, metered) in enumerate(
            [("backup", "true"), ("backup", "false"), ("overflow", "false"), ("primary", "true"), ("primary", "false")],
            1,
        )
    )
    assert settings(text).by_rank == ["primaryfalse", "primarytrue", "overflowfalse", "backupfalse", "backuptrue"]


def test_links_rank_by_priority_then_by_the_file_and_backups_come_last() -> None:
    more = {"a": 'use = "backup"\npriority = 1\n', "b": "", "c": "", "d": "priority = 50\n"}
    text = "".join(f'[wan.{name}]\ninterface = "{name}"\n{lines}' for name, lines in more.items())
    found = links(settings(text), house())
    assert [(link.name, link.rank, link.slot) for link in found] == [("d", 0, 3), ("b", 1, 1), ("c", 2, 2), ("a", 3, 0)]


def test_two_modems_that_give_the_same_address_leave_it_to_the_first_link() -> None:
    twin = replace(DSL, interface=Interface(3, "usb0"))
    assert states(house(DSL, twin)) == {"dsl": None, "lte": Reason.SAME_ADDRESS}


def test_a_settings_file_can_say_the_gateway() -> None:
    text = '[wan.dsl]\ninterface = "eth0"\ngateway = ["192.168.1.254"]'
    (way,) = named(house(DSL), text)["dsl"].next_hops
    assert way.gateway == IPv4Address("192.168.1.254")
    (way,) = named(house(replace(DSL, gateways=())), text)["dsl"].next_hops
    assert way.gateway == IPv4Address("192.168.1.254")


def test_a_gateway_is_that_of_the_default_route_with_the_least_metric_that_is_not_our_own() -> None:
    other = Route(MAIN, IPv4Network("0.0.0.0/0"), IPv4Address("192.168.1.9"), 2, 100, DHCP)
    (way,) = named(house(DSL, routes=[other]))["dsl"].next_hops
    assert way.gateway == IPv4Address("192.168.1.9")
    ours = Route(MAIN, IPv4Network("0.0.0.0/0"), IPv4Address("192.168.1.1"), 2, 1, PROTOCOL, IPv4Address("192.168.1.2"))
    assert states(house(replace(DSL, gateways=()), LTE, routes=[ours]))["dsl"] == Reason.NO_GATEWAY


def test_a_point_to_point_link_has_a_way_without_a_gateway() -> None:
    alone = Route(MAIN, IPv4Network("0.0.0.0/0"), None, 2, 0, 3)
    (way,) = named(house(replace(DSL, gateways=()), routes=[alone]))["dsl"].next_hops
    assert way.gateway is None
    assert [str(route.destination) for route in way.on_link] == ["192.168.1.0/24"]


def test_lasting_addresses_come_before_temporary_ones_public_before_private_ones_older_before_newer_ones() -> None:
    plug = Plug(
        Interface(2, "eth0"), tuple(f"{each}/64" for each in ("2a00::9", "fd00::1", "2a00::1", "2a00::2")), ("fe80::1",)
    )
    temporary, seen = ip_address("2a00::9"), house(plug)
    told = tuple(replace(each, is_lasting=each.address != temporary) for each in seen.addresses)
    (way,) = named(replace(seen, addresses=told))["dsl"].next_hops
    assert [str(each) for each in way.addresses] == ["2a00::1", "2a00::2", "fd00::1", "2a00::9"]


def test_an_address_that_another_host_has_or_that_is_being_checked_is_not_used() -> None:
    seen = house(DSL)
    seen = replace(seen, addresses=tuple(replace(each, is_usable=False) for each in seen.addresses))
    assert states(seen)["dsl"] == Reason.NO_ADDRESS


@pytest.mark.parametrize("name", ['en"p2', "en\\p2", "enp2*"])
def test_an_interface_whose_name_nft_cannot_quote_is_no_links(name: str) -> None:
    plug = replace(DSL, interface=replace(DSL.interface, name=name))
    text = '[wan.any]\ninterface = "*"\n'
    assert named(house(plug), text)["any"].down == Reason.NO_INTERFACE
    assert named(house(DSL), text)["any"].down is None


def test_an_interface_is_found_by_its_alternative_names() -> None:
    """The rule names a stick by its MAC address's name, which is an altname there (ip-link(8))."""
    stick = replace(LTE.interface, other_names=("enp1s0u1", "enx001122334455"))
    lte = named(house(DSL, replace(LTE, interface=stick)), SETTINGS.replace("usb*", "enx001122334455"))["lte"]
    assert lte.interface == stick and lte.down is None


LAN = Plug(Interface(9, "end0"), ("192.168.1.1/24",))


@pytest.mark.parametrize("gateway", ["192.168.1.1", "192.168.1.254"])
def test_a_modem_that_gives_the_lans_own_network_is_one_finding_and_other_links_go_on(gateway: str) -> None:
    found = named(house(replace(DSL, gateways=(gateway,)), LTE, LAN), f'lan = "end0"\n{SETTINGS}')
    assert found["dsl"].down is Reason.LAN_NETWORK and not found["dsl"].next_hops
    assert found["lte"].down is None
    (finding, *_) = diagnosis.of_link(diagnosis.LinkFacts("dsl", found["dsl"].down))
    assert finding.code is diagnosis.Code.LAN_NETWORK and "dsl" in finding.text


def test_a_gateway_that_is_this_box_itself_is_none_also_where_no_lan_is_named() -> None:
    (dsl, lte) = links(settings(), house(DSL, LTE, LAN))
    assert (dsl.down, lte.down) == (Reason.LAN_NETWORK, None)
    other = replace(LAN, addresses=("192.168.1.77/24",))
    assert links(settings(), house(DSL, LTE, other))[0].down is None, "two interfaces of one network, as two clients"


def test_a_gateway_has_a_link_local_address_that_this_box_has_on_another_interface() -> None:
    lte = replace(LTE, gateways=("10.64.0.1", "fe80::1"))
    assert links(settings(), house(lte, replace(LAN, addresses=("fe80::1/64",))))[1].down is None
    here = replace(DSL, addresses=("169.254.0.2/16",), gateways=("169.254.0.1",))
    lan = replace(LAN, addresses=("169.254.0.1/32",))
    assert links(settings(), house(here, lan))[0].down is Reason.LAN_NETWORK, "an IPv4 address is the whole box's"

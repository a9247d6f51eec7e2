"""What the daemon does about IPv6 in the LAN, as scripts: what the kernel says, and the commands that follow."""

from dataclasses import replace
from ipaddress import IPv6Network, ip_address

import pytest

from router import api
from router.lan.npt import DELETE_TABLE, PrefixMapping, PrefixTranslation, rules
from router.state.reconciler import Reconciler
from tests.unit.router.enrolled import FIRST, SECOND, Script
from tests.unit.router.house import DSL, LAN, LTE, SETTINGS, Plug, cut, settings
from tests.unit.router.house import Script as Reconciling
from tributary.kernel.state import Interface
from tributary.prefix_delegation import TOKEN, prefix_of
from tributary.settings.errors import CommandError
from tributary.settings.files import check
from tributary.wireguard.enrolment import Enrolment, table, text

MORE = 'lan = "end0"\n'
HERE = check(table(FIRST) | {"prefix": "2001:db8:1:1::/64"}, Enrolment, "test")
THERE = check(table(SECOND) | {"gateway": "203.0.113.9", "prefix": "2001:db8:2:7::/64"}, Enrolment, "test")
RENEWED = check(table(HERE) | {"prefix": "2001:db8:1:2::/64"}, Enrolment, "test")
SIX = (
    "ip -6 route del default via 2001:db8:2::1 dev usb0 onlink metric 2 proto 84 src 2001:db8:2::2",
    "ip -6 route add default dev tb0 metric 1 proto 84 src 2001:db8:1:1::2",
    "ip address add 2001:db8:1:1::1/64 dev end0",
)
"""What follows of the gateway's first answer."""


BOTH = (
    replace(
        DSL,
        addresses=(*DSL.addresses, "2001:db8:1::2/64", "2001:db8:a1:0:8400::1/64"),
        gateways=(*DSL.gateways, "fe80::1"),
    ),
    # Its provider gives the link itself no address.
    replace(LTE, addresses=("10.64.0.2/30", "2001:db8:a2:0:8400::1/64"), gateways=("10.64.0.1", "fe80::2")),
    LAN,
)
LINK = 'lan = "end0"\nlan_ipv6 = "link"\n'
PRIVATE = IPv6Network("fd12:3456:789a:1::/64")
TRANSLATED = f'lan = "end0"\nlan_ipv6 = "translated"\nlan_prefix = "{PRIVATE}"\n'


def addresses(script: Reconciling) -> list[str]:
    """Those of the LAN's interface."""
    return [str(each.address) for each in script.kernel.addresses if each.interface == LAN.interface.index]


def tables(script: Reconciling) -> dict[str, int | None]:
    """The tables for what comes from networks."""
    rules = script.kernel.rules
    return {str(each.packets): each.table for each in rules if isinstance(each.packets, IPv6Network)}


def serving(*enrolments: Enrolment) -> Script:
    """The first gateway answers by both links, and the LAN is there."""
    script = Script(*enrolments, more=MORE)
    script.now(DSL, LTE, LAN)
    script.answered("dsl", "lte")
    return script


def test_the_lan_has_its_way_before_the_gateway_answers_and_an_address_from_then_on() -> None:
    script = Script(HERE, more=MORE)
    said = script.now(DSL, LTE, LAN)
    assert "ip -6 route add 2001:db8:1:1::/64 dev end0 metric 9 proto 84" in said
    assert "ip -6 rule add priority 8400 from 2001:db8:1:1::2 lookup 8410 protocol 84" in said
    assert [each for each in said if "ip address replace 2001:db8:1:1::2/128 dev tb0" in each]
    assert not [each for each in said if "address add" in each]
    said = script.answered("dsl")
    assert [each for each in said if each in SIX] == list(SIX)
    assert script.reconcile() == []


def test_while_the_gateway_is_away_the_address_is_gone_and_the_way_to_the_lan_stays() -> None:
    script = serving(HERE)
    said = script.failed("dsl", "lte")
    assert "ip address del 2001:db8:1:1::1/64 dev end0" in said
    assert "ip -6 route del default dev tb0 metric 1 proto 84 src 2001:db8:1:1::2" in said
    assert "ip -6 route add default via 2001:db8:2::1 dev usb0 onlink metric 2 proto 84 src 2001:db8:2::2" in said
    assert not [each for each in said if "2001:db8:1:1::/64" in each]
    assert set(SIX) <= set(script.answered("lte"))


@pytest.mark.parametrize("answers", [True, False])
def test_after_a_restart_all_leads_to_the_gateway_as_before_until_its_probes_say_otherwise(answers: bool) -> None:
    script = serving(HERE)
    script.reconciler = Reconciler(script.reconciler.settings, script.reconciler.record)
    assert {each.split()[0] for each in script.reconcile()} == {"wg"}
    script.reconciler.health.record("dsl", None)
    assert script.reconcile() == []
    if answers:
        assert script.answered("dsl", "lte") == []
    else:
        said = script.failed("dsl", "lte")
        assert "ip route del default dev tb0 metric 1 proto 84 src 10.84.0.17" in said
        assert "ip address del 2001:db8:1:1::1/64 dev end0" in said
        script.reconciler = Reconciler(script.reconciler.settings, script.reconciler.record)
        assert not [each for each in script.reconcile() if "default" in each]


def test_after_a_restart_with_another_gateway_nothing_leads_to_it_before_it_answers() -> None:
    script = serving(HERE, THERE)
    script.reconciler = Reconciler(Script(THERE, more=MORE).reconciler.settings, script.reconciler.record)
    said = script.reconcile()
    assert "ip route del default dev tb0 metric 1 proto 84 src 10.84.0.17" in said
    assert not [each for each in said if "add default dev tb0 metric" in each]


def test_the_next_gateway_s_prefix_takes_the_place_of_the_first_one_s() -> None:
    script = serving(HERE, THERE)
    assert not [each for each in script.fall_silent("dsl", "lte") if "address add" in each]
    assert "ip address add 2001:db8:2:7::1/64 dev end0" in script.answered("dsl")
    assert addresses(script) == ["2001:db8:2:7::1"]
    ways = {str(each.destination) for each in script.kernel.routes if each.interface == LAN.interface.index}
    assert ways == {"2001:db8:1:1::/64", "2001:db8:2:7::/64"}


@pytest.mark.parametrize(
    ("enrolment", "more", "lan"),
    [(FIRST, MORE, LAN), (HERE, "", LAN), (HERE, MORE, replace(LAN, interface=Interface(4, "end0", is_up=False)))],
    ids=["no prefix", "no LAN", "a LAN that is off"],
)
def test_without_a_prefix_or_a_lan_there_is_no_address(enrolment: Enrolment, more: str, lan: Plug) -> None:
    script = Script(enrolment, more=more)
    said = [*script.now(DSL, LTE, lan), *script.answered("dsl", "lte")]
    assert not [each for each in said if "end0" in each]


def test_a_link_whose_packets_are_too_small_for_ipv6_does_not_make_the_tunnel_s_so() -> None:
    small = replace(DSL, interface=replace(DSL.interface, mtu=1300))
    said = Script(HERE, more=MORE).now(small, LAN)
    sizes = {each.split()[2]: each.split("mtu ")[1].split()[0] for each in said if each.startswith("wg set")}
    assert sizes == {"tb0": "1280", "tb1": "1220"}


@pytest.mark.parametrize("is_restarted", [False, True], ids=["reload", "restart"])
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (MORE + SETTINGS + text(HERE), MORE + SETTINGS + text(RENEWED)),
        (MORE + 'lan_ipv6 = "link"\n' + SETTINGS, MORE + SETTINGS + text(RENEWED)),
        (MORE + 'lan_ipv6 = "link"\n' + SETTINGS, MORE + SETTINGS),
        (MORE + SETTINGS + text(HERE), SETTINGS + text(HERE)),
        (MORE + SETTINGS + text(HERE), 'lan = "end1"\n' + SETTINGS + text(HERE)),
    ],
    ids=["another enrolment", "from link to gateway", "to none", "no LAN", "another LAN"],
)
def test_the_address_by_earlier_settings_is_taken_away(before: str, now: str, is_restarted: bool) -> None:
    script = Reconciling(text=before)
    script.now(*BOTH)
    script.answered("dsl", "lte")
    (address,) = addresses(script)
    if is_restarted:
        script.reconciler = Reconciler(settings(now), script.reconciler.record)
    else:
        script.reconciler.change_settings(settings(now))
    assert f"ip address del {address}/64 dev end0" in script.reconcile()
    assert address not in addresses(script)


def test_all_of_it_is_taken_away() -> None:
    script = serving(HERE)
    before = {each.address for each in script.kernel.addresses}
    script.remove()
    assert {str(each) for each in before - {each.address for each in script.kernel.addresses}} == {
        "2001:db8:1:1::1",
        *("10.84.0.17", "10.84.0.18", "10.84.0.19", "2001:db8:1:1::2"),  # with the tunnels
    }
    assert not [each for each in script.kernel.routes if each.interface == LAN.interface.index]


def test_settings_name_the_lan_and_its_prefix_is_known_by_the_address_that_networkd_makes() -> None:
    with pytest.raises(CommandError, match="lan = 'a b'"):
        settings('lan = "a b"\n' + SETTINGS)
    assert prefix_of(ip_address("2001:db8:a1:0:8400::1")) == IPv6Network("2001:db8:a1::/64")
    assert [prefix_of(ip_address(each)) for each in ("2001:db8:a1::1", "192.0.2.1")] == [None, None]
    assert str(TOKEN) == "::8400:0:0:1"


def test_the_best_link_s_prefix_is_given_out_and_what_has_one_s_leaves_by_it() -> None:
    script = Reconciling(text=LINK + SETTINGS)
    said = script.now(*BOTH)
    assert {
        "ip -6 route add 2001:db8:a1::/64 dev end0 metric 9 proto 84",
        "ip -6 route add 2001:db8:a2::/64 dev end0 metric 9 proto 84",
        # Who asks the other network's devices asks no provider.
        "ip -6 route add 2001:db8:a1::/64 dev end0 table 8402 metric 1 proto 84",
        "ip -6 route add default via fe80::2 dev usb0 onlink table 8402 metric 1 proto 84",
        "ip -6 rule add priority 8400 from 2001:db8:a1::/64 lookup 8401 protocol 84",
        "ip -6 rule add priority 8400 from 2001:db8:a2::/64 lookup 8402 protocol 84",
        "ip address add 2001:db8:a1::1/64 dev end0",
    } <= set(said)
    # The link has none of it itself, and its own address where it has one.
    assert not [each for each in said if "2001:db8:a1::/64 dev eth0" in each]
    assert [each.split()[4] for each in said if "endpoint add 2001" in each] == [
        "2001:db8:1::2",
        "2001:db8:a2:0:8400::1",
    ]
    status = api.status(script.reconciler, 0, 0)
    assert [link["delegated"] for link in status["wan"]] == ["2001:db8:a1::/64", "2001:db8:a2::/64"]
    assert script.now(*BOTH) == []


def test_a_prefix_whose_link_is_gone_is_refused_for_as_long_as_devices_may_have_it() -> None:
    script = Reconciling(text=LINK + SETTINGS)
    script.now(*BOTH)
    said = script.now(cut(replace(BOTH[0], addresses=(), gateways=())), *BOTH[1:])
    assert {"ip address del 2001:db8:a1::1/64 dev end0", "ip address add 2001:db8:a2::1/64 dev end0"} <= set(said)
    assert "ip -6 route add default dev end0 table 8409 metric 1 proto 84" in said
    assert tables(script) == {"2001:db8:a1::/64": 8409, "2001:db8:a2::/64": 8402}
    # A daemon that was restarted meanwhile knows it of the route that is still there.
    script.reconciler = Reconciler(settings(LINK + SETTINGS), script.reconciler.record)
    assert script.now(*BOTH[1:], wall=100) == []
    script.now(*BOTH[1:], wall=8000)
    assert tables(script) == {"2001:db8:a2::/64": 8402}
    script.now(*BOTH, wall=8000)
    assert addresses(script) == ["2001:db8:a1::1"]
    assert tables(script) == {"2001:db8:a1::/64": 8401, "2001:db8:a2::/64": 8402}


def test_a_clock_that_is_set_as_after_a_boot_has_no_prefix_forgotten() -> None:
    script = Reconciling(text=LINK + SETTINGS)
    script.now(*BOTH)
    script.now(*BOTH[1:])
    assert script.reconciler.reconcile(script.kernel, 1e9, 5.0).operations == ()


def test_a_link_that_is_a_backup_gives_no_addresses_while_a_better_one_works() -> None:
    links = SETTINGS + 'use = "backup"\n'
    script = Reconciling(text=LINK + links)
    script.now(replace(BOTH[0], addresses=DSL.addresses), *BOTH[1:])
    assert addresses(script) == []
    script.now(cut(DSL), *BOTH[1:])
    assert addresses(script) == ["2001:db8:a2::1"]


def test_a_link_keeps_its_prefix_without_the_setting_and_what_by_passes_to_one_without_is_refused() -> None:
    script = Reconciling(text='lan = "end0"\n' + SETTINGS)
    assert not [each for each in script.now(*BOTH) if "end0" in each]
    assert tables(script) == {}
    said = Reconciling(text="bypass = true\n" + SETTINGS).now(DSL, BOTH[1])
    assert "ip rule add priority 8393 fwmark 0x8401 lookup 8401 protocol 84" in said
    assert "ip -6 rule add priority 8393 fwmark 0x8401 unreachable protocol 84" in said
    assert "ip -6 rule add priority 8393 fwmark 0x8402 lookup 8402 protocol 84" in said


def test_private_addresses_stand_while_they_can_be_translated() -> None:
    script = Reconciling(text=TRANSLATED + SETTINGS)
    said = script.now(*BOTH)
    assert "ip address add fd12:3456:789a:1::1/64 dev end0" in said
    assert [each for each in said if each.startswith("nft")] == [
        "nft --file - (table inet tributary-translated: fd12:3456:789a:1::/64 of end0 becomes 2001:db8:a1::/64 by eth0,"
        " 2001:db8:a2::/64 by usb0)"
    ]
    assert tables(script) == {}
    said = script.now(cut(BOTH[0]), *BOTH[1:])
    assert [each for each in said if "nft" in each or "end0" in each] == [
        "ip -6 route del fd12:3456:789a:1::/64 dev end0 table 8401 metric 1 proto 84",
        f"nft --file - (table inet tributary-translated: {PRIVATE} of end0 becomes 2001:db8:a2::/64 by usb0)",
    ]
    assert addresses(script) == ["fd12:3456:789a:1::1"]
    script.now(cut(BOTH[0]), cut(BOTH[1]), LAN)
    assert addresses(script) == []


def test_a_table_of_a_daemon_that_was_killed_is_made_anew_and_taken_away_at_the_end() -> None:
    script = Reconciling(text=TRANSLATED + SETTINGS)
    script.now(*BOTH)
    assert script.reconciler.record.has_translation
    script.reconciler = Reconciler(settings(TRANSLATED + SETTINGS), script.reconciler.record)
    assert [each for each in script.now(*BOTH) if "nft" in each]
    assert "nft delete table inet tributary-translated" in script.remove()
    script = Reconciling(text=LINK + SETTINGS, memory=script.reconciler.record)
    assert "nft delete table inet tributary-translated" in script.now(*BOTH)
    assert not script.reconciler.record.has_translation


def test_a_table_that_another_program_has_removed_is_made_anew() -> None:
    script = Reconciling(text=TRANSLATED + SETTINGS)
    script.now(*BOTH)
    assert script.reconciler.has_translation
    script.reconciler.forget_translation()
    assert not script.reconciler.has_translation
    (said,) = script.now(*BOTH)
    assert said.startswith("nft --file - (table inet tributary-translated: fd12:3456:789a:1::/64 of end0 becomes")
    assert script.reconciler.has_translation


def test_the_rules_translate_both_ways_and_refuse_what_would_leave_by_another_link() -> None:
    mappings = (
        PrefixMapping("eth0", 0, IPv6Network("2001:db8:a1::/64")),
        PrefixMapping("usb0", 1, IPv6Network("2001:db8:a2::/64")),
    )
    lines = [line.strip() for line in rules(PrefixTranslation("end0", PRIVATE, mappings)).splitlines()]
    assert f'oifname "usb0" ip6 saddr {PRIVATE} ct mark set 0x8402 snat ip6 prefix to 2001:db8:a2::/64' in lines
    assert f'iifname "end0" ip6 saddr {PRIVATE} oifname != {{ "end0", "eth0", "usb0" }} goto refuse' in lines
    assert "\n".join(lines).startswith(DELETE_TABLE)


@pytest.mark.parametrize("text", [TRANSLATED.replace("translated", "link"), 'lan_ipv6 = "translated"\n'])
def test_a_private_prefix_goes_with_translation_alone(text: str) -> None:
    with pytest.raises(CommandError, match="with lan_ipv6 = 'translated', and only then, a private IPv6 network"):
        settings(text + SETTINGS)

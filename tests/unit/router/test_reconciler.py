"""What the daemon does when, as scripts: what the kernel says, and the commands that follow."""

from dataclasses import replace
from ipaddress import IPv4Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.identifiers import ENDPOINT_IDS, MAIN
from router.links.model import Reason
from router.state.owned import NOTHING_OWNED
from router.state.reconciler import Reconciler
from tests.unit.router.house import DSL, LTE, SETTINGS, Plug, Script, after, changed, cut, house, link, settings, texts
from tributary.kernel.state import Endpoint, Flags, Interface, Limits, Octets, Route
from tributary.mptcp.events import Ended, SubflowClosed
from tributary.mptcp.four_tuple import FourTuple


@pytest.fixture
def script() -> Script:
    made = Script(house(DSL))
    made.step()
    return made


@pytest.fixture
def both() -> Script:
    made = Script(house(DSL, LTE))
    made.step()
    return made


def test_a_link_gets_a_table_a_default_route_a_rule_and_an_endpoint_in_this_order() -> None:
    assert Script(house(DSL)).step() == [
        "ip mptcp limits set subflows 8 add_addr_accepted 0",
        "ip route add 192.168.1.0/24 dev eth0 table 8401 metric 1 proto 84",
        "ip route add default via 192.168.1.1 dev eth0 onlink table 8401 metric 1 proto 84",
        "ip route add default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2",
        "ip rule add priority 8400 from 192.168.1.2 lookup 8401 protocol 84",
        "ip mptcp endpoint add 192.168.1.2 dev eth0 id 128 subflow",
    ]


def test_a_link_that_comes_later_leaves_the_first_alone(script: Script) -> None:
    assert script.now(DSL, LTE) == [
        "ip route add 10.64.0.0/30 dev usb0 table 8402 metric 1 proto 84",
        "ip route add default via 10.64.0.1 dev usb0 onlink table 8402 metric 1 proto 84",
        "ip -6 route add 2001:db8:2::/64 dev usb0 table 8402 metric 1 proto 84",
        "ip -6 route add default via 2001:db8:2::1 dev usb0 onlink table 8402 metric 1 proto 84",
        "ip route add default via 10.64.0.1 dev usb0 onlink metric 2 proto 84 src 10.64.0.2",
        "ip -6 route add default via 2001:db8:2::1 dev usb0 onlink metric 2 proto 84 src 2001:db8:2::2",
        "ip rule add priority 8400 from 10.64.0.2 lookup 8402 protocol 84",
        "ip -6 rule add priority 8400 from 2001:db8:2::2 lookup 8402 protocol 84",
        "ip mptcp endpoint add 10.64.0.2 dev usb0 id 129 subflow",
        "ip mptcp endpoint add 2001:db8:2::2 dev usb0 id 130 subflow",
    ]


def test_a_cut_link_loses_its_endpoint_first_and_gets_all_back_with_another_id() -> None:
    script = Script(house(DSL, LTE))
    first = script.step()
    gone = script.now(cut(DSL), LTE)
    assert gone == [
        "ip mptcp endpoint delete id 128",
        "ip rule del priority 8400 from 192.168.1.2 lookup 8401 protocol 84",
        "ip route del default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2",
        "ip route del default via 192.168.1.1 dev eth0 onlink table 8401 metric 1 proto 84",
        "ip route del 192.168.1.0/24 dev eth0 table 8401 metric 1 proto 84",
    ]
    back = script.now(DSL, LTE)
    assert back[-1] == "ip mptcp endpoint add 192.168.1.2 dev eth0 id 131 subflow"
    assert set(back[:-1]) <= set(first)


def test_a_new_address_replaces_rule_and_endpoint_and_what_has_not_changed_stays(script: Script) -> None:
    assert script.now(replace(DSL, addresses=("192.168.1.77/24",))) == [
        "ip mptcp endpoint delete id 128",
        "ip rule del priority 8400 from 192.168.1.2 lookup 8401 protocol 84",
        "ip route del default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2",
        "ip route add default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.77",
        "ip rule add priority 8400 from 192.168.1.77 lookup 8401 protocol 84",
        "ip mptcp endpoint add 192.168.1.77 dev eth0 id 129 subflow",
    ]


def test_a_second_address_gets_a_rule_and_takes_no_subflow_from_the_first(script: Script) -> None:
    two = replace(DSL, addresses=(*DSL.addresses, "192.168.1.77/24"))
    assert script.now(two) == ["ip rule add priority 8400 from 192.168.1.77 lookup 8401 protocol 84"]


def test_a_new_gateway_changes_routes_and_breaks_no_subflow(script: Script) -> None:
    operations = script.now(replace(DSL, gateways=("192.168.1.254",)))
    assert len(operations) == 4
    assert not [operation for operation in operations if "mptcp" in operation or "rule" in operation]


def test_an_interface_that_comes_back_under_another_number_is_told_to_the_endpoint(both: Script) -> None:
    stick = replace(LTE, interface=Interface(7, "usb1"))
    operations = both.now(DSL, stick)
    assert "ip mptcp endpoint delete id 129" in operations
    assert "ip mptcp endpoint add 10.64.0.2 dev usb1 id 131 subflow" in operations


def test_backup_and_fullmesh_are_flags_of_the_endpoint() -> None:
    text = '[wan.dsl]\ninterface = "eth0"\nfullmesh = true\n[wan.lte]\ninterface = "usb*"\nuse = "backup"'
    operations = Script(house(DSL, LTE), text).step()
    assert "ip mptcp endpoint add 192.168.1.2 dev eth0 id 128 subflow fullmesh" in operations
    assert "ip mptcp endpoint add 10.64.0.2 dev usb0 id 129 subflow backup" in operations


OVERFLOW = '[wan.dsl]\ninterface = "eth0"\n[wan.lte]\ninterface = "usb*"\nuse = "overflow"'


def carry(script: Script, now: float, dsl: float) -> None:
    """Half a minute in which the links have carried megabits per second in all."""
    for second in range(30):
        received = int(dsl * (second + 1) * 10**6 / 8)
        counts = {"dsl": Octets(received, 0), "lte": Octets(received // 2, 0)}
        script.reconciler.count(counts, {}, now + second)


def test_an_overflow_link_is_a_backup_until_the_others_are_full_and_no_subflow_ends_by_that() -> None:
    script = Script(house(DSL, LTE), OVERFLOW)
    assert script.step()[-2:] == [
        "ip mptcp endpoint add 10.64.0.2 dev usb0 id 129 subflow backup",
        "ip mptcp endpoint add 2001:db8:2::2 dev usb0 id 130 subflow backup",
    ]
    assert script.reconciler.counted_interfaces == {"dsl": "eth0", "lte": "usb0"}
    carry(script, 100, 20)
    assert script.step() == ["ip mptcp endpoint change id 129 nobackup", "ip mptcp endpoint change id 130 nobackup"]
    assert script.step() == []
    carry(script, 200, 0)
    assert script.step() == ["ip mptcp endpoint change id 129 backup", "ip mptcp endpoint change id 130 backup"]


def test_an_overflow_link_is_no_backup_while_no_other_link_works() -> None:
    script = Script(house(DSL, LTE), OVERFLOW)
    script.step()
    operations = script.now(cut(DSL), LTE)
    assert "ip mptcp endpoint change id 129 nobackup" in operations
    assert script.reconciler.counted_interfaces == {}
    assert "ip mptcp endpoint change id 129 backup" in script.now(DSL, LTE)


def test_no_more_endpoints_are_made_than_the_kernel_keeps_and_every_link_gets_one_first() -> None:
    plugs = [
        Plug(
            Interface(10 + number, f"w{number}"),
            (f"10.{number}.0.2/24", f"2001:db8:{number}::2/64"),
            (f"10.{number}.0.1", "fe80::1"),
        )
        for number in range(6)
    ]
    text = "\n".join(f'[wan.w{number}]\ninterface = "w{number}"' for number in range(6))
    foreign = {1: Endpoint(ip_address("10.9.9.9"), 0, Flags.SIGNAL)}
    script = Script(house(*plugs, endpoints=foreign), text)
    script.step()
    addresses = [str(each.address) for number, each in script.kernel.endpoints.items() if number in ENDPOINT_IDS]
    assert addresses == [*(f"10.{number}.0.2" for number in range(6)), "2001:db8::2"]


def test_an_address_with_somebody_elses_endpoint_gets_none_of_ours_and_that_one_is_left_alone() -> None:
    foreign = {1: Endpoint(ip_address("192.168.1.2"), 0, Flags.SUBFLOW)}
    script = Script(house(DSL, endpoints=foreign))
    assert not [operation for operation in script.step() if "endpoint" in operation]
    script.remove()
    assert script.kernel.endpoints == foreign


def test_an_endpoint_that_the_kernel_made_by_itself_gives_way_and_one_for_another_address_stays() -> None:
    made = (Endpoint(ip_address(each), 0, Flags.IMPLICIT) for each in ("192.168.1.2", "192.168.8.1"))
    implicit = dict(enumerate(made, 5))
    script = Script(house(DSL, endpoints=implicit))
    operations = script.step()
    assert operations[0] == "ip mptcp endpoint delete id 5"
    assert operations[-1] == "ip mptcp endpoint add 192.168.1.2 dev eth0 id 128 subflow"
    assert script.kernel.endpoints[6] == implicit[6]


def test_what_somebody_removes_is_made_anew(script: Script) -> None:
    script.kernel = replace(script.kernel, endpoints={}, rules=())
    assert script.step() == [
        "ip rule add priority 8400 from 192.168.1.2 lookup 8401 protocol 84",
        "ip mptcp endpoint add 192.168.1.2 dev eth0 id 129 subflow",
    ]


def test_what_a_killed_daemon_left_is_taken_over_as_it_is_or_away_if_nobody_wants_it_any_more(both: Script) -> None:
    assert Script(both.kernel, memory=both.reconciler.record).step() == []
    operations = Script(both.kernel, '[wan.dsl]\ninterface = "eth0"', both.reconciler.record).step()
    assert operations and all("8402" in each or "usb0" in each or "delete id" in each for each in operations)


def test_endpoints_are_in_the_memory_before_they_are_made() -> None:
    reconciler = Reconciler(settings(), NOTHING_OWNED)
    reconciler.reconcile(house(DSL), 0, 0)
    assert reconciler.record == replace(
        NOTHING_OWNED, endpoints={128: ip_address("192.168.1.2")}, limits_before=Limits(2, 0)
    )


def test_limits_from_before_come_back_unless_somebody_else_has_set_others(script: Script) -> None:
    assert script.kernel.limits == Limits(8, 0)
    removal = texts(script.reconciler.removal(script.kernel), script.kernel)
    assert "ip mptcp limits set subflows 2 add_addr_accepted 0" in removal
    elses = replace(script.kernel, limits=Limits(4, 4))
    assert not [operation for operation in texts(script.reconciler.removal(elses), elses) if "limits" in operation]


def test_a_link_that_does_not_answer_keeps_its_table_and_loses_endpoint_and_default_route() -> None:
    script = Script(house(DSL, LTE), SETTINGS + '[probe]\ntarget = "203.0.113.5:5124"\nfailures = 1')
    script.step()
    assert script.reconciler.health.start_due(0) == ["dsl", "lte"]
    script.reconciler.health.record("lte", 0.03)
    script.reconciler.health.record("dsl", None)
    assert script.step() == [
        "ip mptcp endpoint delete id 128",
        "ip route del default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2",
    ]
    assert link(script.reconciler, "dsl").reason == Reason.NO_ANSWER
    for _ in range(3):
        assert script.step() == []
        script.reconciler.health.record("dsl", 0.01)
    assert script.step() == [
        "ip route add default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2",
        "ip mptcp endpoint add 192.168.1.2 dev eth0 id 131 subflow",
    ]


def test_a_link_without_an_address_of_the_targets_ip_version_is_not_probed() -> None:
    script = Script(house(DSL, LTE), SETTINGS + '[probe]\ntarget = "[2001:db8::5]:5124"')
    script.step()
    assert script.reconciler.health.start_due(0) == ["lte"]


def closed(local: str, reason: Ended) -> SubflowClosed:
    return SubflowClosed(0, 7, FourTuple(local, 40000, "203.0.113.5", 5124), reason)


def test_an_endpoint_is_made_anew_when_the_kernel_has_given_up_its_subflow(both: Script) -> None:
    both.reconciler.on_subflow_closed(closed("10.64.0.2", Ended.RESET), 100.0)
    assert both.reconciler.refresher.next_due == 101.0
    operations = both.reconciler.refresh_endpoints({7: frozenset({"192.168.1.2"})}, 101.0)
    assert texts(operations, both.kernel) == [
        "ip mptcp endpoint delete id 129",
        "ip mptcp endpoint add 10.64.0.2 dev usb0 id 131 subflow",
    ]
    both.kernel = after(both.kernel, operations)
    assert both.step() == []
    assert both.reconciler.record.endpoints[131] == ip_address("10.64.0.2")


def test_a_subflow_that_ends_well_or_whose_link_is_down_before_or_after_is_not_mended(both: Script) -> None:
    both.reconciler.on_subflow_closed(closed("10.64.0.2", Ended.CLOSED), 100.0)
    assert both.reconciler.refresher.next_due is None
    both.reconciler.on_subflow_closed(closed("192.168.1.2", Ended.TIMEOUT), 100.0)
    both.now(cut(DSL), LTE)
    both.reconciler.on_subflow_closed(closed("192.168.1.2", Ended.RESET), 100.0)
    assert both.reconciler.refresher.next_due is None


def test_other_settings_take_effect_at_the_next_look(both: Script) -> None:
    both.reconciler.change_settings(settings('[wan.lte]\ninterface = "usb*"\n[mptcp]\nsubflows = 2'))
    operations = both.step()
    assert "ip mptcp limits set subflows 2 add_addr_accepted 0" in operations
    assert "ip rule del priority 8400 from 192.168.1.2 lookup 8401 protocol 84" in operations
    assert [link.name for link in both.reconciler.links] == ["lte"]
    assert both.step() == []


def test_a_change_of_state_is_told_once_with_its_time() -> None:
    reconciler = Reconciler(settings(), NOTHING_OWNED)
    assert [change.reason for change in reconciler.reconcile(house(DSL, LTE), 5.0, 5.0).changes] == [None, None]
    assert reconciler.reconcile(house(DSL, LTE), 6.0, 6.0).changes == ()
    (change,) = reconciler.reconcile(house(cut(DSL), LTE), 7.0, 7.0).changes
    assert (change.name, change.reason) == ("dsl", Reason.NO_CARRIER)
    assert {link.name: link.since for link in reconciler.links} == {"dsl": 7.0, "lte": 5.0}


PLUGS = [
    *(DSL, cut(DSL), replace(DSL, addresses=()), LTE, cut(LTE), replace(LTE, interface=Interface(7, "usb1"))),
    *(replace(DSL, addresses=("192.168.1.77/24",)), replace(DSL, gateways=("192.168.1.254",))),
    *(replace(LTE, addresses=("192.168.1.2/24",)), replace(LTE, gateways=("2001:db8:2::1",))),
]
HOUSES = st.lists(st.sampled_from(PLUGS), max_size=3, unique_by=lambda plug: plug.interface.index)


@given(st.lists(HOUSES, min_size=1, max_size=8))
def test_whatever_links_do_one_look_is_enough_and_nothing_of_others_is_touched(history: list[list[Plug]]) -> None:
    default = Route(MAIN, IPv4Network("0.0.0.0/0"), ip_address("172.16.0.1"), 1, 0, 3)
    foreign = {1: Endpoint(ip_address("172.16.0.2"), 0, Flags.SIGNAL)}
    first = house(*history[0], routes=[default], endpoints=foreign)
    script = Script(first)
    for plugs in history:
        script.kernel = changed(script.kernel, house(*plugs, routes=[default]))
        script.step()
        assert script.step() == []
    script.remove()
    left, clean = script.kernel, house(*history[-1], routes=[default], endpoints=foreign)
    assert set(left.routes) == set(clean.routes)
    assert (left.rules, left.endpoints, left.limits) == (clean.rules, clean.endpoints, clean.limits)

"""What the daemon does about tunnels, as scripts: what the kernel says, and the commands that follow."""

from dataclasses import replace
from ipaddress import IPv4Network, ip_address

import pytest

from command.link import lines
from router import api
from router.identifiers import FIRST_METRIC, MAIN, PROTOCOL, is_owned_route
from router.state.owned import OwnershipRecord
from router.state.plan import Add, Change, TunnelInterface
from router.state.reconciler import Reconciler
from tests.unit.router.house import DSL, LTE, SETTINGS, Plug, after, cut, house, settings, texts
from tests.unit.router.house import Script as Reconciling
from tests.unit.tributary.wireguard.test_enrolment import GIVEN
from tributary.kernel.state import Interface, Route
from tributary.settings.errors import CommandError
from tributary.settings.files import check
from tributary.settings.hosts import Target
from tributary.wireguard.enrolment import Enrolment, text

FIRST = check(GIVEN | {"gateway": "203.0.113.5"}, Enrolment, "test")
SECOND = check(GIVEN | {"gateway": "gateway.example.net:7", "addresses": "10.84.0.32/28"}, Enrolment, "test")


OVERFLOW = SETTINGS.replace("[wan.lte]", 'use = "overflow"\n[wan.lte]\nuse = "overflow"')


class Script(Reconciling):
    """One with an enrolment or more."""

    def __init__(self, *enrolments: Enrolment, more: str = "", memory: OwnershipRecord | None = None) -> None:
        super().__init__(None, more + SETTINGS + "".join(map(text, enrolments or (FIRST,))), memory)


@pytest.fixture
def both() -> Script:
    """With two links."""
    script = Script()
    script.now(DSL, LTE)
    return script


def answering(more: str = "") -> Script:
    """The gateway answers by both links, and as quickly."""
    script = Script(more=more)
    script.now(DSL, LTE)
    script.answered("dsl", "lte")
    return script


@pytest.fixture
def answered() -> Script:
    return answering()


def test_each_link_gets_a_tunnel_with_a_mark_and_what_a_tunnel_sends_leaves_by_no_other_link() -> None:
    said = Script().now(DSL)
    assert [each for each in said if "link add" in each] == [
        f"ip link add tb{place} type wireguard" for place in range(3)
    ]
    for wanted in (
        "ip route add default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84",
        "ip rule add priority 8391 fwmark 0x8410 lookup 8400 protocol 84",
        "ip rule add priority 8391 fwmark 0x8411 lookup 8401 protocol 84",
        "ip rule add priority 8392 fwmark 0x8410/0xfffffff0 unreachable protocol 84",
        "wg set tb1 fwmark 0x8411 peer ... endpoint 203.0.113.5:51840;"
        " ip address replace 10.84.0.18/32 dev tb1; ip link set tb1 mtu 1420 up",
        "ip route add default dev tb1 table 8411 metric 1 proto 84",
        "ip rule add priority 8400 from 10.84.0.18 lookup 8411 protocol 84",
        "ip route add 10.84.0.1/32 dev tb1 metric 1 proto 84 src 10.84.0.18",
        "ip route add unreachable 10.84.0.1/32 metric 9 proto 84",
        "ip mptcp endpoint add 10.84.0.18 dev tb1 id 128 subflow",
    ):
        assert wanted in said
    assert not [each for each in said if "endpoint add 192.168.1.2" in each]
    rules = [number for number, each in enumerate(said) if "fwmark" in each and "rule" in each]
    sent = [number for number, each in enumerate(said) if each.startswith("wg set")]
    assert max(rules) < min(sent)


def test_everything_else_goes_into_its_tunnel_once_the_gateway_answers(both: Script) -> None:
    assert both.answered("lte") == [
        "ip route del default via 10.64.0.1 dev usb0 onlink metric 2 proto 84 src 10.64.0.2",
        "ip route del default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2",
        "ip route add default dev tb0 metric 1 proto 84 src 10.84.0.17",
    ]
    both.answered("dsl", "lte")
    back = both.failed("dsl", "lte")
    assert "ip route del default dev tb0 metric 1 proto 84 src 10.84.0.17" in back
    assert "ip route add default via 192.168.1.1 dev eth0 onlink metric 1 proto 84 src 192.168.1.2" in back


def test_a_link_by_which_the_gateway_does_not_answer_keeps_its_tunnel_for_the_probes(answered: Script) -> None:
    said = answered.failed("dsl")
    assert said[0] == "ip mptcp endpoint delete id 128"
    assert "ip route del 10.84.0.1/32 dev tb1 metric 1 proto 84 src 10.84.0.18" in said
    assert "ip route del default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84" in said
    assert not [each for each in said if "table 8411" in each or "table 8401" in each]
    # It leaves by the best link that works.
    assert [each for each in said if each.startswith("wg set tb0")]


def test_the_tunnel_for_everything_else_is_set_again_when_the_best_link_has_changed(both: Script) -> None:
    assert both.reconcile() == []
    said = both.now(cut(DSL), LTE)
    assert [each.split()[2] for each in said if each.startswith("wg set")] == ["tb0"]


def test_another_address_of_a_link_sets_its_tunnel_again_and_leaves_its_endpoint_alone(both: Script) -> None:
    said = both.now(replace(DSL, addresses=("192.168.1.77/24",)), LTE)
    assert [each.split()[2] for each in said if each.startswith("wg set")] == ["tb0", "tb1"]
    assert not [each for each in said if "mptcp" in each]


def test_packets_are_as_large_as_the_link_lets_them() -> None:
    pppoe = replace(DSL, interface=Interface(2, "eth0", mtu=1492))
    said = Script().now(pppoe, LTE)
    sizes = {each.split()[2]: each.split("mtu ")[1].split()[0] for each in said if each.startswith("wg set")}
    assert sizes == {"tb0": "1412", "tb1": "1412", "tb2": "1420"}


def test_a_name_is_looked_up_and_the_tunnels_wait_for_it() -> None:
    script = Script(SECOND)
    assert script.reconciler.gateways.names == {"gateway.example.net"}
    assert [each for each in script.now(DSL) if "(unknown yet)" in each]
    six, four = ip_address("2001:db8::9"), ip_address("203.0.113.9")
    assert script.reconciler.gateways.set_resolved({"gateway.example.net": (six, four)})
    # The link has no IPv6.
    assert [each for each in script.reconcile() if "endpoint 203.0.113.9:7;" in each]
    assert not script.reconciler.gateways.set_resolved({"gateway.example.net": (four, six)})
    assert script.reconcile() == []


def test_a_gateway_that_is_silent_gives_way_to_the_next_and_the_last_to_the_first() -> None:
    script = Script(FIRST, SECOND)
    script.reconciler.gateways.set_resolved({"gateway.example.net": (ip_address("203.0.113.9"),)})
    script.now(DSL, LTE)
    script.answered("dsl", "lte")
    assert not script.reconciler.fail_over(0.0)
    script.failed("dsl")
    assert not script.reconciler.fail_over(0.0)
    script.failed("dsl", "lte")
    assert script.reconciler.fail_over(0.0)
    said = script.reconcile()
    assert [each for each in said if "endpoint 203.0.113.9:7; ip address replace 10.84.0.34/32 dev tb1" in each]
    assert "ip mptcp endpoint add 10.84.0.34 dev tb1 id 130 subflow" in said
    script.failed("dsl", "lte")
    assert script.reconciler.fail_over(0.0) and script.reconciler.gateways.address == "203.0.113.5:51840"


def test_the_first_gateway_is_asked_by_a_tunnel_of_its_own_and_gone_back_to_when_it_has_answered_for_long() -> None:
    script = Script(SECOND, FIRST)
    script.reconciler.gateways.set_resolved({"gateway.example.net": (ip_address("203.0.113.9"),)})
    assert not [each for each in script.now(DSL, LTE) if "tb9" in each]
    script.failed("dsl", "lte")
    assert script.reconciler.fail_over(0.0)
    said = [each for each in script.reconcile() if "tb9" in each]
    assert said[0] == "ip link add tb9 type wireguard"
    assert "fwmark 0x8410 peer ... endpoint 203.0.113.9:7; ip address replace 10.84.0.33/32 dev tb9" in said[1]
    script.answered("dsl")
    assert script.reconciler.failback_path == ("tb9", ip_address("10.84.0.33"), Target(SECOND.inside, 5124))
    gateways = script.reconciler.gateways
    gateways.failback.record(True, gateways.index, 10.0)
    assert not script.reconciler.fail_back(309.0)
    assert script.reconciler.fail_back(310.0) and gateways.index == 0
    said = script.reconcile()
    assert "ip link delete dev tb9" in said and script.reconciler.failback_path is None
    assert [each for each in said if "endpoint 203.0.113.9:7; ip address replace 10.84.0.34/32 dev tb1" in each]
    # Nothing leaves outside of the tunnels while the gateway that has just answered is asked by each link.
    assert script.reconciler.gateway_tunnels and script.reconciler.gateway_tunnels.answers
    assert script.reconciler.health.start_due(400.0) == ["dsl", "lte"]


def test_a_step_that_failed_is_tried_again() -> None:
    script = Script()
    script.now(DSL)
    assert script.reconcile() == []
    script.reconciler.on_failure(Change(script.reconciler.gateways.applied["tb1"]))
    assert [each.split()[2] for each in script.reconcile()] == ["tb1"]


def test_all_is_taken_away_and_other_peoples_interfaces_are_not() -> None:
    script = Script(more="bypass = true\n")
    script.now(DSL, LTE, Plug(Interface(9, "wg0")))
    for operation in script.reconciler.removal(script.kernel):
        script.kernel = after(script.kernel, [operation])
    assert {interface.name for interface in script.kernel.interfaces} == {"lo", "eth0", "usb0", "wg0"}
    assert not script.kernel.rules and not script.kernel.endpoints


def test_a_tunnel_that_is_gone_is_forgotten_and_another_interface_of_its_name_is_left_alone() -> None:
    script = Script(SECOND, FIRST)
    script.now(DSL, LTE)
    script.failed("dsl", "lte")
    script.reconciler.fail_over(0.0)
    script.reconcile()
    assert "tb9" in script.reconciler.record.tunnels
    script.reconciler.change_settings(Script(FIRST).reconciler.settings)
    assert "ip link delete dev tb9" in script.reconcile()
    assert script.reconciler.record.tunnels == {"tb0", "tb1", "tb2"}
    somebody_elses = Plug(Interface(9, "tb9"))
    assert script.now(DSL, LTE, somebody_elses) == []


def test_an_interface_of_somebody_elses_that_has_a_tunnels_name_is_left_alone() -> None:
    script = Script()
    said = script.now(DSL, LTE, Plug(Interface(9, "tb0")))
    assert script.reconciler.names_taken == {"tb0"}
    assert not [each for each in said + script.answered("dsl", "lte") if "tb0" in each]
    assert "tb0" not in script.reconciler.record.tunnels and "ip link add tb1 type wireguard" in said
    withdrawn = script.reconciler.removal(script.kernel)
    assert {"ip link delete dev tb1", "ip link delete dev tb2"} <= set(texts(withdrawn, script.kernel))
    assert "ip link delete dev tb0" not in texts(withdrawn, script.kernel)


def test_a_tunnel_that_could_not_be_made_is_not_taken_for_ours() -> None:
    script = Script()
    assert Add(TunnelInterface("tb0")) in script.reconciler.reconcile(house(DSL), 0).operations
    script.reconciler.on_failure(Add(TunnelInterface("tb0")))
    assert script.reconciler.record.tunnels == {"tb1", "tb2"}


def test_a_reload_keeps_what_is_known_of_gateways_that_stay_and_asks_them_anew() -> None:
    script = Script(FIRST, SECOND)
    reconciler = script.reconciler
    reconciler.gateways.set_resolved({"gateway.example.net": (ip_address("203.0.113.9"),)})
    script.now(DSL, LTE)
    script.failed("dsl", "lte")
    assert reconciler.fail_over(0.0)
    script.reconcile()
    script.answered("lte")
    script.failed("dsl")
    reconciler.health.start_due(1.0)
    reconciler.change_settings(reconciler.settings)
    said = script.reconcile()
    # Only what the tunnels' interfaces have is given again.
    assert {each.split()[0] for each in said} == {"wg"} and "endpoint 203.0.113.9:7;" in " ".join(said)
    assert reconciler.gateways.index == 1 and reconciler.health.down == {"dsl"}
    assert reconciler.gateway_tunnels and reconciler.gateway_tunnels.answers
    assert reconciler.health.start_due(1.0) == ["dsl", "lte"]


def test_a_restart_goes_on_with_the_gateway_that_was_used() -> None:
    script = Script(FIRST, SECOND)
    script.now(DSL)
    script.failed("dsl")
    assert script.reconciler.fail_over(0.0)
    script.reconcile()
    assert Script(FIRST, SECOND, memory=script.reconciler.record).reconciler.gateways.index == 1
    assert Script(FIRST, memory=script.reconciler.record).reconciler.gateways.index == 0


def test_a_reload_without_the_gateway_that_is_used_begins_with_the_first() -> None:
    script = Script(FIRST, SECOND)
    script.now(DSL)
    script.failed("dsl")
    assert script.reconciler.fail_over(0.0)
    script.reconciler.change_settings(Script(FIRST).reconciler.settings)
    assert script.reconciler.gateways.address == "203.0.113.5:51840" and not script.reconciler.health.answers


def test_by_pass_lists_have_rules_for_each_link_and_for_the_best() -> None:
    reconciler = Reconciler(settings("bypass = true\n" + SETTINGS), OwnershipRecord())
    said = texts(reconciler.reconcile(house(DSL, LTE), 0).operations, house(DSL, LTE))
    for wanted in (
        "ip rule add priority 8393 fwmark 0x8400 lookup 8400 protocol 84",
        "ip rule add priority 8393 fwmark 0x8402 lookup 8402 protocol 84",
        "ip rule add priority 8394 fwmark 0x8400/0xfffffff0 lookup 8400 protocol 84",
        "ip route add default via 10.64.0.1 dev usb0 onlink table 8400 metric 2 proto 84",
        "ip mptcp endpoint add 192.168.1.2 dev eth0 id 128 subflow",
    ):
        assert wanted in said


def test_answers_to_what_the_tunnel_for_everything_else_brought_leave_by_it_or_not_at_all() -> None:
    script = Script(more="bypass = true\n")
    said = script.now(DSL)
    assert "ip rule add priority 8393 fwmark 0x8420 lookup 8410 protocol 84" in said
    assert "ip rule add priority 8394 fwmark 0x8420 unreachable protocol 84" in said


@pytest.mark.parametrize("more", ['[tunnels]\nprefix = "tunnel-interface"', '[tunnels]\nkeepalive = "1ms"'])
def test_settings_of_tunnels_are_checked(more: str) -> None:
    with pytest.raises(CommandError, match="tunnels"):
        settings(SETTINGS + more)


def test_a_tunnels_name_is_no_links_and_not_the_lans() -> None:
    for more in ('lan = "tb1"\n', '[tunnels]\nprefix = "eth"\n'):
        with pytest.raises(CommandError, match=r"tunnels.prefix: .* is an interface of wan or lan"):
            settings(more + SETTINGS + text(FIRST))
    settings('lan = "tb1"\n' + SETTINGS)


@pytest.mark.parametrize("target", ["203.0.113.5:5124", "[2001:db8::5]:5124"])
def test_with_tunnels_nothing_but_the_gateways_inside_can_be_probed(target: str) -> None:
    with pytest.raises(CommandError, match="inside address, since tunnels lead nowhere else"):
        settings(SETTINGS + f'[probe]\ntarget = "{target}"\n' + text(FIRST))
    settings(SETTINGS + f'[probe]\ntarget = "{FIRST.inside}:80"\n' + text(FIRST))


def test_status_says_in_words_whether_the_gateway_answers() -> None:
    script = Script(SECOND)
    script.now(DSL)

    def said() -> str:
        answer = api.status(script.reconciler, 1.0, 1.0)
        shown = ({**each, "shaper": None, "set": {}} for each in answer["wan"])
        facts = (line.plain.strip() for each in shown for line in lines(each, 200))
        return " ".join((*(each["text"] for each in answer["gateway"]["diagnosis"]), *facts))

    assert "The gateway's name gateway.example.net:7 is not found" in said()
    script.reconciler.gateways.set_resolved({"gateway.example.net": (ip_address("203.0.113.9"),)})
    script.reconcile()
    assert "The gateway gateway.example.net:7 is being tried." in said()
    script.failed("dsl")
    assert "The gateway gateway.example.net:7 does not answer" in said()
    script.answered("dsl")
    assert "tunnel tb1 from 10.84.0.34" in said()
    assert "endpoint 128 for 10.84.0.34" in said()


def test_what_by_passes_to_a_link_that_does_not_answer_leaves_by_the_best() -> None:
    reconciler = Reconciler(
        settings("bypass = true\n" + SETTINGS + '[probe]\ntarget = "203.0.113.5:5124"'), OwnershipRecord()
    )
    seen = house(DSL, LTE)
    seen = after(seen, reconciler.reconcile(seen, 0).operations)
    reconciler.health.record("lte", 0.02)
    for _ in range(3):
        reconciler.health.record("dsl", None)
    said = texts(reconciler.reconcile(seen, 0).operations, seen)
    assert "ip rule del priority 8393 fwmark 0x8401 lookup 8401 protocol 84" in said


def test_a_link_that_is_silent_in_a_conversation_is_left_by_everything_else_and_by_no_subflow(answered: Script) -> None:
    answered.reconciler.health.recheck_all()
    assert answered.reconciler.health.start_due(50.0) == ["dsl", "lte"]
    assert answered.reconciler.health.timeout("dsl") < 1
    answered.reconciler.health.record("dsl", None)
    # The gateway itself may be away: nothing is left before it answers by another link.
    assert answered.reconcile() == []
    said = answered.answered("lte")
    assert "ip route del default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84" in said
    assert [each.split()[2] for each in said if each.startswith("wg set")] == ["tb0"]
    assert answered.reconciler.health.timeout("dsl") > 1
    best = [route for route in answered.kernel.routes if route.table == 8400 and route.destination.version == 4]
    assert [route.interface for route in best] == [LTE.interface.index]
    assert {str(each.address) for each in answered.kernel.endpoints.values()} == {"10.84.0.18", "10.84.0.19"}
    back = answered.answered("dsl")
    assert "ip route add default via 192.168.1.1 dev eth0 onlink table 8400 metric 1 proto 84" in back
    assert [each.split()[2] for each in back if each.startswith("wg set")] == ["tb0"]


@pytest.mark.parametrize("rtt", [0.02, None], ids=["all answer", "none answers"])
def test_a_doubt_that_all_links_answer_alike_changes_nothing(answered: Script, rtt: float | None) -> None:
    answered.reconciler.health.recheck_all()
    for link in ("dsl", "lte"):
        answered.reconciler.health.record(link, rtt)
    assert answered.reconcile() == []


def test_the_tunnel_of_a_metered_link_is_kept_open_less_often() -> None:
    script = Script()
    metered = settings(SETTINGS + "metered = true\n" + text(FIRST))
    script.reconciler.change_settings(metered)
    script.now(DSL, LTE)
    kept = {name: config.interface.peers[0].keepalive for name, config in script.reconciler.gateways.applied.items()}
    assert kept == {"tb0": 20, "tb1": 20, "tb2": 60}


def outside(script: Script, tunnel: str) -> str | None:
    """Where a tunnel leads to."""
    [peer] = script.reconciler.gateways.applied[tunnel].interface.peers
    return peer.endpoint


FOUR, SIX = "203.0.113.7:7", "[2001:db8::7]:7"
BOTH = (ip_address("2001:db8::7"), ip_address("203.0.113.7"))


def test_a_gateway_with_addresses_of_both_ip_versions_is_tried_by_the_other_where_one_is_silent() -> None:
    """Its name has A and AAAA, and UDP over IPv6 is dropped on the way."""
    script = Script(SECOND)
    script.reconciler.gateways.set_resolved({"gateway.example.net": BOTH})
    script.now(LTE)
    assert outside(script, "tb2") == outside(script, "tb0") == SIX
    for failures, wanted in enumerate([SIX, SIX, FOUR, FOUR, FOUR, SIX, SIX], start=1):
        script.reconciler.health.record("lte", None)
        script.reconcile()
        assert outside(script, "tb2") == outside(script, "tb0") == wanted, failures
    for _ in range(5):
        script.reconciler.health.record("lte", None)
        script.reconcile()
    assert outside(script, "tb2") == FOUR
    script.answered("lte")
    assert outside(script, "tb2") == FOUR
    script.failed("lte")
    assert outside(script, "tb2") == SIX


def test_a_link_that_leads_out_by_one_ip_version_alone_goes_on_asking_by_that() -> None:
    script = Script(SECOND)
    script.reconciler.gateways.set_resolved({"gateway.example.net": BOTH})
    script.now(DSL)
    for _ in range(4):
        script.failed("dsl")
        assert outside(script, "tb1") == FOUR


def test_an_earlier_gateway_is_asked_by_its_other_address_too_and_links_go_there_by_that() -> None:
    script = Script(SECOND, FIRST)
    script.reconciler.gateways.set_resolved({"gateway.example.net": BOTH})
    script.now(LTE)
    assert script.reconciler.fail_over(0.0) is False
    script.failed("lte")
    assert script.reconciler.fail_over(10.0)
    script.reconcile()
    assert outside(script, "tb9") == SIX
    scout = script.reconciler.gateways.failback
    for now in (20.0, 30.0, 40.0):
        scout.record(False, 1, now)
    script.reconcile()
    assert outside(script, "tb9") == FOUR
    for now in (50.0, 50.0 + scout.required):
        scout.record(True, 1, now)
    assert script.reconciler.fail_back(50.0 + scout.required)
    script.reconcile()
    assert outside(script, "tb2") == FOUR


def quick(script: Script, **ms: float) -> list[str]:
    """Six answers by each of these links after so many milliseconds; the commands that follow."""
    for _ in range(6):
        for link, each in ms.items():
            script.reconciler.health.record(link, each / 1000)
    return script.reconcile()


def beginning(script: Script) -> list[str]:
    """The links that begin sessions, as the status has them."""
    return [link["name"] for link in api.status(script.reconciler, 0, 0)["wan"] if link["begins_sessions"]]


def test_of_equal_links_the_quickest_begins_sessions_and_there_is_a_route_inside_all_the_time(answered: Script) -> None:
    assert quick(answered, dsl=80, lte=20) == ["ip route add 10.84.0.1/32 dev tb2 metric 0 proto 84 src 10.84.0.19"]
    assert beginning(answered) == ["lte"]
    assert quick(answered, dsl=10) == ["ip route del 10.84.0.1/32 dev tb2 metric 0 proto 84 src 10.84.0.19"]
    assert beginning(answered) == ["dsl"]


def test_answers_of_long_ago_say_nothing_of_how_quick_a_link_is(answered: Script) -> None:
    quick(answered, dsl=80, lte=20)
    quick(answered, lte=200)
    assert beginning(answered) == ["dsl"]


def test_a_link_that_failed_has_to_show_again_that_it_is_quick(answered: Script) -> None:
    quick(answered, dsl=80, lte=20)
    answered.reconciler.health.record("lte", None)
    answered.answered("lte")
    assert beginning(answered) == ["dsl"]
    quick(answered, lte=20)
    assert beginning(answered) == ["lte"]


def test_the_quickest_stays_when_the_first_link_comes_back_of_which_nothing_is_known(answered: Script) -> None:
    quick(answered, dsl=80, lte=20)
    answered.now(LTE)
    answered.now(DSL, LTE)
    assert beginning(answered) == ["lte"]


def test_an_overflow_link_on_standby_begins_no_session() -> None:
    script = Script()
    script.reconciler.change_settings(settings(OVERFLOW + text(FIRST)))
    script.now(DSL, LTE)
    script.answered("dsl", "lte")
    assert script.reconciler.overflow.standby == {"lte"}
    quick(script, dsl=80, lte=20)
    assert beginning(script) == ["dsl"]


def test_without_tunnels_no_link_is_said_to_begin_sessions() -> None:
    reconciler = Reconciler(settings(), OwnershipRecord())
    reconciler.reconcile(house(DSL, LTE), 0)
    assert [link["begins_sessions"] for link in api.status(reconciler, 0, 0)["wan"]] == [False, False]


def test_routes_of_others_with_our_protocol_and_no_metric_are_not_ours() -> None:
    inside = Route(MAIN, IPv4Network("10.84.0.1/32"), None, 7, FIRST_METRIC, PROTOCOL)
    assert is_owned_route(inside)
    assert not is_owned_route(replace(inside, destination=IPv4Network("198.51.100.0/24")))
    assert not is_owned_route(replace(inside, gateway=ip_address("10.1.0.1")))

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from doctor import fleet, limits, links, multipath, path, services, sysctls
from doctor.findings import Finding, State, fixes, ok
from doctor.links import Access
from doctor.path import Outcome, Try
from doctor.services import Listener
from tributary.api import fleet_file
from tributary.kernel import sysctl

FILE = Path("kernel-config/90-tributary.conf")
HOME = Access("eth0", "192.0.2.7", "192.0.2.1", leaves_by="eth0")
ENDPOINTS = {"192.0.2.7": "eth0"}
STRAY = Access("lte", "198.51.100.7", "198.51.100.1", leaves_by="eth0")


def states(*findings: Finding) -> list[str]:
    return [finding.state.value for finding in findings]


def commands(finding: Finding) -> list[str]:
    return [" ".join(command) for command in finding.fix]


def test_a_sysctl_file_is_read_without_comments() -> None:
    text = "# a reason\n\nnet.ipv4.tcp_rmem = 4096 131072\t33554432\n; another\nnet.ipv4.tcp_retries2=100\n"
    assert sysctls.parse(text) == {"net.ipv4.tcp_rmem": "4096 131072 33554432", "net.ipv4.tcp_retries2": "100"}


def test_a_setting_is_read_with_single_blanks_and_what_the_kernel_lacks_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysctl, "ROOT", tmp_path)
    (tmp_path / "rmem").write_text("4096\t131072\n")
    assert [sysctl.read("rmem"), sysctl.read("other"), sysctl.number("rmem")] == ["4096 131072", None, None]


def test_settings_that_differ_are_fixed_by_the_file_and_missing_ones_noted() -> None:
    wanted = {"a": "1", "b": "2", "c": "3"}
    findings = sysctls.compare(wanted, {"a": "1", "b": "5", "c": None}, FILE)
    assert states(*findings) == ["wrong", "note"]
    assert findings[0].message == "b is 5, not 2"
    assert commands(findings[0])[-1] == "sysctl -e -q -p /etc/sysctl.d/90-tributary.conf"
    assert states(*sysctls.compare({"a": "1", "b": "2"}, {"a": "1", "b": "2"}, FILE)) == ["ok"]


@pytest.mark.parametrize(
    "file", [Path("/usr/lib/sysctl.d/90-tributary.conf"), Path("/usr/lib/tributary/retransmissions.conf")]
)
def test_settings_of_a_package_are_applied_from_where_they_are(file: Path) -> None:
    """A copy in /etc/sysctl.d would take the place of an administrator's, and of a later version's."""
    (finding,) = sysctls.compare({"a": "1"}, {"a": "2"}, file)
    assert commands(finding) == [f"sysctl -e -q -p {file}"]


def test_a_file_of_settings_that_is_in_no_place_or_cannot_be_read_is_a_finding(tmp_path: Path) -> None:
    places = (tmp_path / "a.conf", tmp_path / "b.conf")
    (finding,) = sysctls.examine(places)
    assert finding.state is State.WRONG
    assert finding.message == f"{places[0]} or {places[1]} is missing: the package tributary-common has it"
    (tmp_path / "a.conf").write_bytes(b"net.ipv4.ip_forward = \xff")
    (finding,) = sysctls.examine([tmp_path / "a.conf"])
    assert finding.state is State.UNKNOWN


def test_settings_that_go_together_stay_where_the_kernel_lacks_one(tmp_path: Path) -> None:
    file = tmp_path / "retransmissions.conf"
    file.write_text("net.ipv4.tcp_rto_that_no_kernel_has = 1000\nnet.ipv4.tcp_retries2 = 100\n")
    (together,) = sysctls.examine([file], together=True)
    assert (together.state, together.fix) == (State.NOTE, ())
    alone = list(sysctls.examine([file]))
    assert states(*alone) == ["note", "wrong"]


@pytest.mark.parametrize(
    ("printed", "state"), [("add_addr_accepted 0 subflows 2 ", "ok"), ("subflows 0", "wrong"), ("", "unknown")]
)
def test_a_session_needs_further_subflows(printed: str, state: str) -> None:
    assert states(multipath.judge_limits(multipath.parse_limits(printed))) == [state]


@pytest.mark.parametrize(("enabled", "state"), [("1", "ok"), ("0", "wrong"), (None, "wrong")])
def test_mptcp_has_to_be_switched_on(enabled: str | None, state: str) -> None:
    assert states(multipath.judge_switch(enabled)) == [state]


@pytest.mark.parametrize(
    ("release", "attached", "state"),
    [
        ("6.6.51+rpt-rpi-v8", False, State.OK),
        ("6.7.0", False, State.WRONG),
        ("6.12.38+deb13-amd64", False, State.WRONG),
        ("6.12.38+deb13-amd64", True, State.OK),
        ("6.6.51+rpt-rpi-v8", None, State.OK),
        ("6.12.38+deb13-amd64", None, State.UNKNOWN),
    ],
)
def test_subflows_need_our_program_to_obey_the_low_mark_from_linux_6_7_on(
    release: str, attached: bool | None, state: State
) -> None:
    assert multipath.judge_low_mark(release, attached=attached).state is state


def test_counters_that_hint_at_something_are_noted_and_zeros_are_not() -> None:
    netstat = "TcpExt: A B\nTcpExt: 1 2\nMPTcpExt: Blackhole MPFallbackTokenInit\nMPTcpExt: 3 0\n"
    findings = multipath.judge_counters(multipath.parse_counters(netstat))
    assert states(*findings) == ["note"]
    assert findings[0].message.startswith("3 times SYNs with MPTCP got no answer")
    assert multipath.parse_counters("TcpExt: A\nTcpExt: 1\n") == {}


def test_gateways_are_found_of_single_routes_and_of_several_hops() -> None:
    routes: dict[int, list[Mapping[str, Any]]] = {
        4: [
            {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0", "metric": 1},
            {"dst": "default", "gateway": "192.0.2.9", "dev": "eth0", "metric": 100},
            {"dst": "default", "via": {"family": "inet6", "host": "fe80::1"}, "dev": "lte"},
            {"type": "unreachable", "dst": "default", "metric": 9},
        ],
        6: [
            {"dst": "default", "nexthops": [{"gateway": "fe80::1", "dev": "lte"}, {"dev": "ppp0"}]},
            {"type": "unreachable", "dst": "default", "dev": "lo", "metric": 9},
        ],
    }
    found = {("eth0", 4): "192.0.2.1", ("lte", 4): "inet6 fe80::1", ("lte", 6): "fe80::1", ("ppp0", 6): None}
    assert links.default_gateways(routes) == found


def test_access_links_are_global_addresses_with_a_gateway_of_their_version() -> None:
    interfaces: list[Mapping[str, Any]] = [
        {"ifname": "lo", "addr_info": [{"local": "127.0.0.1", "scope": "host"}]},
        {
            "ifname": "eth0",
            "addr_info": [
                {"local": "192.0.2.7", "scope": "global"},
                {"local": "2001:db8::7", "scope": "global"},
                {"local": "fe80::7", "scope": "link"},
            ],
        },
    ]
    found = links.accesses(interfaces, {("eth0", 4): "192.0.2.1"}, lambda _address: "eth0")
    assert found == [HOME]
    # A line with two ends alone, as PPPoE's.
    found = links.accesses(interfaces, {("eth0", 6): None}, lambda _address: "eth0")
    assert found == [Access("eth0", "2001:db8::7", None, leaves_by="eth0")]


@pytest.mark.parametrize(
    ("gateway", "via"), [("198.51.100.1", "via 198.51.100.1 "), (None, ""), ("inet6 fe80::1", "via inet6 fe80::1 ")]
)
def test_an_address_that_leaves_by_another_link_gets_a_table_and_a_rule(gateway: str | None, via: str) -> None:
    (finding,) = links.judge_routes([HOME, replace(STRAY, gateway=gateway)])
    assert finding.message == "packets from 198.51.100.7 of lte leave by eth0"
    assert commands(finding) == [
        f"ip -4 route replace default {via}dev lte table 102",
        "ip -4 rule add from 198.51.100.7 lookup 102",
    ]


def test_each_address_leaves_by_its_own_link_and_there_is_one() -> None:
    assert states(*links.judge_routes([HOME])) == ["ok"]
    assert states(*links.judge_routes([])) == ["wrong"]


def test_an_address_without_an_endpoint_gets_one_and_one_for_each_ip_version_of_a_link_is_enough() -> None:
    (finding,) = links.judge_endpoints([HOME, STRAY], ENDPOINTS, kept=False)
    assert commands(finding) == ["ip mptcp endpoint add 198.51.100.7 dev lte subflow"]
    assert states(*links.judge_endpoints([HOME], ENDPOINTS, kept=False)) == ["ok"]
    second = replace(HOME, address="192.0.2.8")
    assert states(*links.judge_endpoints([second, HOME], ENDPOINTS, kept=False)) == ["ok"]
    ipv6 = [replace(second, address=f"2001:db8::{number}") for number in (7, 8)]
    (finding,) = links.judge_endpoints([HOME, *ipv6], ENDPOINTS, kept=False)
    assert finding.message.startswith("2001:db8::7 of eth0")


def test_what_tributary_router_keeps_is_not_fixed_beside_it() -> None:
    (finding,) = links.judge_endpoints([STRAY], {}, kept=True)
    assert (finding.state, finding.fix) == (State.WRONG, ())
    assert "tributary links" in finding.advice
    inside = {"10.84.0.18": "tb1", "10.84.0.19": "tb2"}
    (finding,) = links.judge_endpoints([STRAY], inside, kept=True)
    assert (finding.state, finding.message) == (State.OK, "tributary-router has them in its tunnels: tb1, tb2")
    # Without it they are somebody's who knows of no link.
    assert states(*links.judge_endpoints([STRAY], inside, kept=False)) == ["wrong"]


def test_strict_filters_matter_with_several_links_alone() -> None:
    assert states(links.judge_filters(["eth0"], 1), links.judge_filters([], 2)) == ["ok", "ok"]
    finding = links.judge_filters(["eth0"], 2)
    assert commands(finding) == ["sysctl -w net.ipv4.conf.all.rp_filter=2", "sysctl -w net.ipv4.conf.eth0.rp_filter=2"]
    vlan = links.judge_filters(["eth0.100"], 2)
    assert commands(vlan)[1] == "sysctl -w net.ipv4.conf.eth0/100.rp_filter=2"


@pytest.mark.parametrize(
    ("of_all", "own", "strict"), [("0", "1", ["eth0"]), ("1", "0", ["eth0"]), ("2", "1", []), ("1", "2", [])]
)
def test_the_larger_of_both_filters_holds(tmp_path: Path, of_all: str, own: str, strict: list[str]) -> None:
    for name, value in (("all", of_all), ("eth0", own), ("lo", "1")):
        (tmp_path / "net/ipv4/conf" / name).mkdir(parents=True)
        (tmp_path / "net/ipv4/conf" / name / "rp_filter").write_text(value)
    # It cannot be read, as that of an interface which has gone since it was listed.
    (tmp_path / "net/ipv4/conf/gone/rp_filter").mkdir(parents=True)
    assert links.strictly_filtered(tmp_path) == strict


def test_listeners_are_known_by_process_and_by_mptcp() -> None:
    tcp = (
        'LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=1,fd=3))\n'
        'LISTEN 0 128 *:3128 *:* users:(("squid",pid=2,fd=3))\n'
        'LISTEN 0 128 *:8080 *:* users:(("squid",pid=2,fd=4))\n'
    )
    found = services.parse_listeners(tcp, 'LISTEN 0 128 *:3128 *:* users:(("squid",pid=2,fd=3))\n')
    assert found == [
        Listener("squid", "*:3128", True),
        Listener("sshd", "0.0.0.0:22", False),
        Listener("squid", "*:8080", False),
    ]


def test_a_converter_that_takes_tcp_alone_or_does_not_listen_is_wrong() -> None:
    findings = list(services.judge_listeners([Listener("squid", "*:3128", False)], {}, {}))
    assert [finding.message for finding in findings] == ["takes TCP alone at *:3128", "does not listen"]
    assert commands(findings[0]) == ["systemctl restart tributary-squid"]
    assert [finding.cuts for finding in findings] == [True, False]
    both = [Listener("squid", "*:3128", True), Listener("tributary-conve", "*:3129", True)]
    assert states(*services.judge_listeners(both, {}, {})) == ["ok", "ok"]


def test_a_converter_that_is_not_enabled_need_not_listen() -> None:
    assert list(services.judge_listeners([], {"tributary-throttler": True}, {})) == []
    assert list(services.judge_listeners([], {"tributary-converter": False, "tributary-gateway": True}, {})) == []
    only = {"tributary-converter": True, "tributary-squid": False}
    (finding,) = services.judge_listeners([], only, {})
    assert (finding.check, finding.message) == ("tributary-converter", "does not listen")
    assert len(list(services.judge_listeners([Listener("squid", "*:3128", True)], only, {}))) == 2


def test_the_service_manager_listens_for_a_converter_that_its_socket_starts() -> None:
    printed = (
        'LISTEN 0 9 *:3128 *:* users:(("systemd",pid=1,fd=40))\n'
        'LISTEN 0 9 *:3129 *:* users:(("systemd",pid=1,fd=41),("tributary-conve",pid=9,fd=3))\n'
    )
    listeners = services.parse_listeners('LISTEN 0 9 *:22 *:* users:(("systemd",pid=1,fd=42))\n', printed)
    waiting, started = listeners[:1], listeners[1:3]
    assert [each.process for each in started] == ["systemd", "tributary-conve"]
    by_socket = {"tributary-converter.socket": True, "tributary-converter": False}
    sockets = {"tributary-converter": {"*:3128", "*:3129"}}
    for found in (waiting, started):
        (finding,) = services.judge_listeners(found, by_socket, sockets)
        assert (finding.state, finding.message) == (State.OK, f"takes MPTCP at {found[0].address}")
    (silent,) = services.judge_listeners(listeners[3:], by_socket, sockets)
    assert commands(silent) == ["systemctl start tributary-converter.socket"]
    assert states(*services.judge_listeners(waiting, {"tributary-converter": True}, {})) == ["wrong"]


def test_where_the_service_manager_listens_for_another_no_converter_does() -> None:
    by_socket, sockets = {"tributary-converter.socket": True}, {"tributary-converter": {"*:3128", "10.0.0.1:5124"}}
    for address in ("*:9090", "192.0.2.1:3128", "10.0.0.2:5124"):
        (finding,) = services.judge_listeners([Listener("systemd", address, True)], by_socket, sockets)
        assert (finding.state, finding.message) == (State.WRONG, "does not listen")
    for address in ("*:3128", "[::]:3128", "*%eth0:3128", "10.0.0.1:5124", "10.0.0.1%eth0:5124"):
        (finding,) = services.judge_listeners([Listener("systemd", address, True)], by_socket, sockets)
        assert finding.state is State.OK


def test_units_and_where_their_sockets_listen_are_known_by_what_the_service_manager_shows() -> None:
    printed = "Listen=[::]:3128 (Stream)\nListen=10.0.0.1:5124 (Stream)\nListen=/run/x.sock (Stream)\n"
    assert services.parse_socket(printed) == {"*:3128", "10.0.0.1:5124"}
    assert services.parse_socket("Listen=\n") == frozenset()
    printed = (
        "tributary-converter.service disabled enabled\n"
        "tributary-converter.socket  enabled-runtime disabled\n"
        "tributary-converter@.service enabled enabled\n"
        "tributary-doctor.service    static  -\n"
    )
    known = {"tributary-converter": False, "tributary-converter.socket": True, "tributary-doctor": False}
    assert services.parse_units(printed) == known


def test_a_console_that_is_enabled_listens() -> None:
    (silent,) = services.judge_console([], enabled=True)
    assert (silent.check, states(silent), commands(silent)) == (
        "tributary-console",
        ["wrong"],
        ["systemctl start tributary-console"],
    )
    assert services.judge_console([], enabled=False) == []
    (found,) = services.judge_console([Listener("tributary-conso", "192.168.77.1:8480", False)], enabled=False)
    assert (states(found), found.message) == (["ok"], "the page is at 192.168.77.1:8480")


FLEET = {"time": 1000.0, "announced": True, "drained": None, "answers": True, "heard": True}


@pytest.mark.parametrize(
    ("changed", "now", "state", "told"),
    [
        ({}, 1002, "ok", "announced to a router"),
        ({}, 1060, "wrong", "it does not run"),
        (None, 1002, "wrong", "it does not run"),
        ({"announced": None, "heard": False}, 1002, "wrong", "BIRD does not answer"),
        ({"announced": False, "drained": "upgrade"}, 1002, "note", "withdrawn: drained (upgrade)"),
        ({"announced": False, "answers": False}, 1002, "wrong", "a proxy does not answer"),
        ({"announced": False, "heard": False}, 1002, "wrong", "no router hears it"),
    ],
)
def test_a_node_of_a_fleet_is_announced_unless_somebody_has_drained_it(
    changed: Mapping[str, Any] | None, now: float, state: str, told: str, fleet_status: Path
) -> None:
    if changed is not None:
        fleet_status.write_text(json.dumps({**FLEET, **changed}))
    finding = fleet.judge(fleet_file.read(now))
    assert (states(finding), finding.message.endswith(told)) == ([state], True)


@pytest.mark.parametrize(
    ("families", "policy", "state", "told"),
    [
        ("inet", "drop", "ok", "dropped by inet filter"),
        ("inet", "accept", "wrong", "can be reached"),
        ("ip ip6", "drop", "ok", "dropped by ip filter and ip6 filter"),
        ("ip", "drop", "wrong", "can be reached over IPv6: ip filter"),
        ("ip6", "drop", "wrong", "can be reached over IPv4: ip6 filter"),
        ("bridge", "drop", "wrong", "can be reached"),
    ],
)
def test_a_firewall_drops_what_comes_in_by_both_ip_versions(families: str, policy: str, state: str, told: str) -> None:
    hook = {"table": "filter", "hook": "input", "policy": policy}
    chains = [{"chain": {"family": family, **hook}} for family in families.split()]
    finding = services.judge_firewall({"nftables": [{"metainfo": {}}, *chains]}, enabled=False)
    assert states(finding) == [state]
    assert told in finding.message
    assert states(services.judge_firewall(services.parse_ruleset('{"nftables": []}'), enabled=False)) == ["wrong"]


@pytest.mark.parametrize(("table", "state"), [("filter", "wrong"), ("tributary-firewall", "ok")])
def test_the_playbooks_firewall_is_there_by_name_where_it_is_enabled(table: str, state: str) -> None:
    chain = {"chain": {"family": "inet", "table": table, "hook": "input", "policy": "drop"}}
    finding = services.judge_firewall({"nftables": [chain]}, enabled=True)
    assert states(finding) == [state]
    assert commands(finding) == (["systemctl reload-or-restart tributary-firewall"] if state == "wrong" else [])


@pytest.mark.parametrize(
    ("multipath", "table", "missing"),
    [(True, "tributary-firewall", True), (True, "squid", False), (False, "tributary-firewall", False)],
    ids=["flushed", "guarded", "of-debian"],
)
def test_squid_has_its_guard(multipath: bool, table: str, missing: bool) -> None:
    ruleset = {"nftables": [{"metainfo": {}}, {"table": {"family": "inet", "name": table, "handle": 1}}]}
    found = list(services.judge_guard([Listener("squid", "127.0.0.1:3128", multipath)], ruleset))
    assert states(*found) == (["wrong"] if missing else [])
    assert [commands(each) for each in found if each.cuts] == [["systemctl restart tributary-squid"]] * missing


def test_room_for_connections() -> None:
    assert states(limits.judge_files(1_048_576), limits.judge_files(1024)) == ["ok", "wrong"]
    findings = [limits.judge_tracking(count, 1000) for count in (None, 799, 800)]
    assert states(*findings) == ["ok", "ok", "wrong"]
    assert commands(findings[2]) == ["sysctl -w net.netfilter.nf_conntrack_max=4000"]
    # The kernel compares with a maximum that is not zero alone (__nf_conntrack_alloc() in nf_conntrack_core.c).
    assert states(limits.judge_tracking(800, 0)) == ["ok"]


@pytest.mark.parametrize(("printed", "state"), [("yes", "ok"), ("no", "wrong"), ("", "unknown")])
def test_the_clock_is_synchronized_or_not_or_nobody_knows(printed: str, state: str) -> None:
    found = limits.judge_clock(printed)
    assert states(found) == [state] and ("no time server answers" in found.advice) is (printed == "no")


def test_one_path_that_speaks_mptcp_tells_that_the_other_strips_it_and_none_that_the_server_may() -> None:
    tried = [Try("a", Outcome.MULTIPATH), Try("b", Outcome.PLAIN), Try("c", Outcome.NONE, "no way")]
    findings = path.judge("s:1", tried)
    assert states(*findings) == ["ok", "wrong", "wrong"]
    assert findings[1].message == "b speaks plain TCP, others do not"
    assert findings[2].message == "c does not connect: no way"
    (finding,) = path.judge("s:1", [Try("a", Outcome.PLAIN)])
    assert "the server has no MPTCP, or every path strips it" in finding.message
    assert states(*path.judge("s:1", [])) == ["wrong"]


def test_each_mend_is_run_once_and_for_what_is_wrong_alone() -> None:
    wrong = Finding("a", State.WRONG, "", (("x",), ("y",)))
    noted = Finding("b", State.NOTE, "", (("z",),))
    assert fixes([wrong, ok("c", ""), noted, wrong]) == [("x",), ("y",)]


@pytest.mark.parametrize("unit", [services.LAN, services.TUNNELS])
@pytest.mark.parametrize(("is_there", "enabled", "found"), [(False, True, 1), (True, True, 0), (False, False, 0)])
def test_a_lan_or_a_gateway_whose_table_is_not_there_is_found(
    unit: str, is_there: bool, enabled: bool, found: int
) -> None:
    """Somebody has flushed it, or the unit has not started, as with wrong settings."""
    tables = ["other", *([unit] if is_there else [])]
    ruleset = {"nftables": [{"table": {"family": "inet", "name": name}} for name in tables]}
    findings = list(services.judge_translation(ruleset, [unit] if enabled else []))
    assert [each.state.value for each in findings] == ["wrong"] * found
    assert all(each.fix == (("systemctl", "reload-or-restart", unit),) for each in findings)


@pytest.mark.parametrize(
    ("family", "policy", "accepted", "lan_prefix", "found"),
    [
        ("ip", "drop", "docker0", False, ["IPv4"]),
        ("inet", "drop", "docker0", True, ["IPv4 and IPv6"]),
        ("ip6", "drop", "docker0", False, []),
        ("ip", "accept", "docker0", False, []),
        ("bridge", "drop", "docker0", False, []),
        ("ip", "drop", "wg7", False, []),
        ("ip", "drop", "10.84.0.0", False, []),
    ],
)
def test_another_programs_chain_that_drops_what_the_tunnels_bring_is_found(
    family: str, policy: str, accepted: str, lan_prefix: bool, found: list[str]
) -> None:
    """As Docker's and ufw's, unless a rule beside it accepts that."""

    def rule(family: str, table: str, *matches: tuple[object, object], verdict: str) -> dict[str, Any]:
        parts = [{"match": {"op": "==", "left": left, "right": right}} for left, right in matches]
        return {"rule": {"family": family, "table": table, "expr": [*parts, {verdict: None}]}}

    interface, target = {"meta": {"key": "iifname"}}, {"payload": {"protocol": "ip", "field": "daddr"}}
    ours = [
        {
            "chain": {
                "family": "inet",
                "table": services.TUNNELS,
                "name": "forward",
                "hook": "forward",
                "policy": "accept",
            }
        },
        rule("inet", services.TUNNELS, (interface, "wg7"), verdict="jump"),
        rule("inet", services.TUNNELS, (target, {"prefix": {"addr": "10.84.0.0", "len": 16}}), verdict="drop"),
        *([{"set": {"family": "inet", "table": services.TUNNELS, "name": "refused_targets6"}}] if lan_prefix else []),
    ]
    chain = {"family": family, "table": "filter", "name": "FORWARD", "hook": "forward", "policy": policy}
    others = [{"chain": chain}, rule(family, "filter", (interface, accepted), verdict="accept")]
    findings = list(services.judge_forwarding({"nftables": [*ours, *others]}))
    assert [each.message.partition(" over ")[2] for each in findings] == found
    assert all(f"{family} filter: its chain FORWARD" in each.message for each in findings)
    assert all("ufw route allow in on wg7" in each.advice for each in findings)
    assert list(services.judge_forwarding({"nftables": others})) == []

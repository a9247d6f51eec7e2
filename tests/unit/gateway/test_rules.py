"""The rules, as text to read: the plain ones whole, and of others what differs.

To make them anew after a wanted change: REMAKE_GOLDEN=1 scripts/python -m pytest tests/unit/gateway/test_rules.py
"""

import os
import shutil
import subprocess
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from gateway import dns, rules
from gateway.registry import Routers
from gateway.settings import GatewaySettings
from tests import golden
from tests.unit.gateway.house import router
from tributary.kernel import connections, nft
from tributary.settings.errors import CommandError
from tributary.settings.files import check
from tributary.settings.ports import Ports

GOLDEN = Path(__file__).parent / "golden"
CASES: dict[str, dict[str, object]] = {
    "plain": {},
    "open": {
        "interface": "wg-7",
        "network": "10.200.0.0/20",
        "converter_ports": [1080, 5124],
        "dns": True,
        "private_targets": ["192.168.0.0/16", "10.0.0.0/8"],
        "refused_ports": [],
        "connections": 10_000,
        "dns_rate": 20,
    },
    "closed": {"converter_ports": [], "dns": False},
    "forwards": {},
    "routed": {"lan_prefix": "2001:db8:1::/48", "refused_ports": ["tcp/25", "udp/137-139"]},
    "translated": {"lan_prefix": "fd12:3456:789a::/48", "private_targets": ["fd00:1::/32"]},
}


ROUTERS: dict[str, Routers] = {
    "forwards": {
        "berlin": router(1, following=3, forward=["tcp/443", "udp/27015-27020"]),
        "paris": router(2, forward=["tcp/8443"]),
    }
}


FOR_TUNNELS = {"open": [], "translated": [4, 6]}
BASES = dict.fromkeys(CASES, "plain") | {"translated": "routed"}
"""The case from which each differs."""
WORDS = {"open": {'"tributary"': '"wg-7"', "10.84.0.0/16": "10.200.0.0/20", "10.84.0.1": "10.200.0.1", "16384": "1024"}}
"""Those of a case in place of its base's."""


def settings(case: str) -> GatewaySettings:
    return check({"name": "gateway.example.net", **CASES[case]}, GatewaySettings, case)


def text(case: str) -> str:
    return rules.text(settings(case), ROUTERS.get(case, {}), FOR_TUNNELS.get(case, [4]))


@pytest.mark.parametrize("case", CASES)
def test_the_rules_are_the_golden_ones(case: str) -> None:
    if case == BASES[case]:
        golden.compare(GOLDEN / f"{case}.nft", text(case))
    else:
        base = golden.with_words(text(BASES[case]), WORDS.get(case, {}))
        golden.compare(GOLDEN / f"{case}.diff", golden.differences(base, text(case)))


@pytest.mark.skipif(not shutil.which("nft") or os.geteuid() != 0, reason="needs nft and root")
@pytest.mark.parametrize("case", CASES)
def test_nft_takes_them(case: str) -> None:
    subprocess.run(["nft", "--check", "--file", "-"], input=text(case), text=True, check=True)


def listing(case: str) -> str:
    """The rules as the kernel lists them."""
    listed = text(case).partition(nft.delete(f"inet {rules.TABLE}"))[2]
    return "".join(line.replace("    ", "\t") for line in listed.splitlines(keepends=True))


@pytest.mark.skipif(not shutil.which("nft") or os.geteuid() != 0, reason="needs nft and root")
@pytest.mark.parametrize(("case", "before"), [("forwards", "plain"), ("plain", "forwards"), ("routed", "open")])
def test_nft_takes_rules_in_place_of_others(case: str, before: str, tmp_path: Path) -> None:
    (tmp_path / "before").write_text(text(before))
    (tmp_path / "after").write_text(rules.keeping(text(case), listing(before)))
    # One after the other, as a gateway does: of both in one file nft 1.1.3 dies.
    subprocess.run(["unshare", "--net", "sh", "-ec", "nft -f before; nft -f after"], cwd=tmp_path, check=True)


def removed(case: str, before: str) -> set[str]:
    """The dynamic sets that rules in place of others begin anew with."""
    lines = rules.keeping(text(case), listing(before)).splitlines()
    static = ("refused_targets", "refused_targets6", "refused_ports")
    return {line.split()[-1] for line in lines if line.startswith("delete set")} - {*static}


def test_other_forwarded_ports_leave_what_is_counted() -> None:
    assert removed("forwards", "plain") == set()
    assert removed("plain", "forwards") == {"to4_begun", "to4", "to4_full"}
    new = rules.keeping(text("plain"), listing("forwards"))
    assert f"delete table inet {rules.TABLE}" not in new and "delete counter" not in new
    assert 0 < new.index(f"flush map inet {rules.TABLE} given") < new.index(f"delete chain inet {rules.TABLE} given_1")


def test_a_set_of_another_limit_or_size_begins_anew() -> None:
    """Each of its elements has the limit that was there when it was made."""
    lines = rules.keeping(text("plain").replace("4096 connections", "64 connections"), listing("plain")).splitlines()
    assert f"delete set inet {rules.TABLE} from4" in lines and f"delete set inet {rules.TABLE} from4_begun" not in lines
    assert {"from4_begun", "from4", "from4_full", "names4", "questions"} <= removed("open", "plain")
    for case in ("plain", "open"):
        connections, rate = settings(case).connections, settings(case).dns_rate
        assert f"ct count over {connections} }}" in text(case) and f'comment "{connections} connections"' in text(case)
        assert f"rate over {rate}/second" in text(case) and f'comment "{rate} in a second"' in text(case)


@pytest.mark.skipif(not shutil.which("nft") or os.geteuid() != 0, reason="needs nft and root")
def test_refused_ports_may_overlap() -> None:
    ports = {"refused_ports": ["tcp/25", "tcp/20-30", "udp/25", "tcp/28-40", "tcp/25", "tcp/41"]}
    made = rules.text(check({"name": "gateway.example.net", **ports}, GatewaySettings, "test"), {}, [])
    lines = [line.strip() for line in made.splitlines()]
    refused = [line for line in lines if line.startswith(("tcp . ", "udp . "))]
    assert refused == ["tcp . 20-40,", "tcp . 41,", "udp . 25,"]
    subprocess.run(["nft", "--check", "--file", "-"], input=made, text=True, check=True)


def test_no_setting_opens_what_nobody_may_reach() -> None:
    refused = rules.refused(settings("open"))
    for closed in ("127.0.0.0/8", "169.254.169.254/32", "100.64.0.0/10"):
        assert any(IPv4Network(closed).subnet_of(each) for each in refused if isinstance(each, IPv4Network))
    opened = IPv4Network("192.168.0.0/16")
    assert not any(each.overlaps(opened) for each in refused if isinstance(each, IPv4Network))


def test_what_packets_have_put_into_sets_is_no_part_of_the_rules() -> None:
    """As nft lists it; the sets that the rules themselves fill are compared."""
    kept = "\tset refused_targets {\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = { 0.0.0.0/8 }\n\t}\n"
    counted = "\tset from4 {\n\t\ttype ipv4_addr\n\t\tsize 16384\n\t\tflags dynamic\n"
    full = '\tset from4_full {\n\t\tflags dynamic,timeout\n\t\ttimeout 1s\n\t\tcomment "64 at once"\n'
    elements = "\t\telements = { 10.84.0.16 ct count over 64,\n\t\t\t     10.84.0.32 expires 888ms }\n"
    empty = f"{kept}{counted}\t}}\n{full}\t}}\n"
    assert rules.without_seen(f"{kept}{counted}{elements}\t}}\n{full}{elements}\t}}\n") == empty
    assert rules.without_seen(empty) == empty
    # As nft says it since 1.1.4.
    assert rules.without_seen(empty.replace("size 16384", "size 16384\t# count 2")) == empty


def test_what_conntrack_lists_without_ports_or_by_half_is_passed_over() -> None:
    listing = """\
tcp 6 431999 ESTABLISHED src=198.51.100.7 dst=203.0.113.1 sport=4000 dport=443 src=10.84.0.17 dst=198.51.100.7 sport=443 dport=4000 [ASSURED]
gre 47 29 src=198.51.100.7 dst=203.0.113.1 srckey=0x0 dstkey=0x0 src=10.84.0.17 dst=198.51.100.7 srckey=0x0 dstkey=0x0
udp 17 29 src=198.51.100.7 dst=203.0.113.1
udp 17 29 src=198.51.100.7 dst=203.0.113.1 sport=4000 dport=53
icmp 1 29 src=198.51.100.7 dst=203.0.113.1 type=8 code=0 id=5 src=10.84.0.17 dst=198.51.100.7 type=0 code=0 id=5

conntrack v1.4.7 (conntrack-tools): 4 flow entries have been shown.
"""  # noqa: E501
    assert connections.forwarded(listing) == {(443, IPv4Address("10.84.0.17"))}


def test_of_an_ss_that_fails_nothing_follows_about_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "ss").write_text("#!/bin/sh\necho Cannot open netlink socket >&2; exit 1\n")
    (tmp_path / "ss").chmod(0o755)
    assert "Cannot open netlink socket" in str(connections.end_connections([IPv4Network("10.84.0.16/28")]))
    with pytest.raises(CommandError, match="Cannot open netlink socket"):
        connections.listener_on(Ports("tcp", 80, 80), IPv4Network("10.84.0.0/16"))


def test_one_home_leaves_room_for_others_names_by_tcp() -> None:
    """dnsmasq serves 20 connections at once, and each that says nothing for minutes."""
    plain = text("plain")
    (jump,) = [line for line in plain.splitlines() if line.endswith("jump names_by_tcp")]
    assert "tcp dport 53 ct state new" in jump
    assert "add @names4 { ip saddr & 255.255.255.240 ct count over 5 }" in plain.partition("chain names_by_tcp {")[2]
    assert "names_by_tcp" not in text("closed")


@pytest.mark.parametrize("rate", [100, 10_000])
def test_names_of_a_whole_page_of_many_homes_may_wait_at_once(rate: int) -> None:
    """300 names at once, while the name server above answers slowly: dnsmasq's own limit of 150 refuses some.

    One home whose name servers do not answer has those of ten seconds wait, and five times its rate at once.
    """
    settings = check({"name": "gateway.example.net", "dns_rate": rate}, GatewaySettings, "gateway.toml")
    assert f"limit rate over {rate}/second burst {5 * rate} packets" in rules.text(settings, {}, ())
    (most,) = [word for word in dns.command(settings) if word.startswith("--dns-forward-max=")]
    assert int(most.partition("=")[2]) > 15 * rate + 1000

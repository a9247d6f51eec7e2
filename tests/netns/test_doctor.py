import json
import subprocess
import sys
from typing import Any

import pytest

from experiments.testbed.appliance import start_converter
from experiments.testbed.build import Testbed
from experiments.testbed.node import Node
from experiments.testbed.topology import NATIVE_PORT
from tests.doctor_fix import CONFINED, asked
from tests.netns.world import ready, ruled
from tributary.api.places import EXAMINED
from tributary.paths import ROOT
from tributary.settings.errors import Exit

# A daemon that holds the control socket and nothing else.
HOLDER = """\
import sys
from tributary.api.places import ROUTER
with ROUTER.server():
    print("ready", flush=True)
    sys.stdin.read()
"""
MIDDLEBOX = "table inet strip {{ chain arriving {{ type filter hook prerouting priority mangle; iifname {} {}; }}; }}"
"""On a link, played by the gateway before its own sockets see a packet."""


def doctor(node: Node, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    command = node.command([sys.executable, "-m", "doctor", "--role", "router", "--json", *arguments])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def wrong(findings: list[dict[str, Any]]) -> list[str]:
    return [finding["message"] for finding in findings if finding["state"] == "wrong"]


@pytest.mark.smoke
def test_this_kernel_has_what_the_appliance_needs(testbed: Testbed) -> None:
    code, findings = doctor(testbed.client, "--only", "kernel,mptcp")
    assert (code, wrong(findings)) == (0, [])
    assert {finding["check"] for finding in findings} >= {"kernel, mptcp", "kernel, htb", "kernel, nftables", "MPTCP"}


@pytest.mark.parametrize(
    ("harm", "check", "found"),
    [
        ("ip rule delete from 10.0.2.2", "routing", "packets from 10.0.2.2 of wireless leave by wired"),
        ("sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wireless.rp_filter=1", "rp_filter", "wireless"),
        ("ip mptcp endpoint flush", "endpoints", "10.0.2.2"),
    ],
    ids=["a lost rule", "a strict filter", "an address without an endpoint"],
)
def test_what_is_out_of_order_is_found_fixed_and_ok_again(testbed: Testbed, harm: str, check: str, found: str) -> None:
    client = testbed.client
    client.run(*harm.split())
    code, findings = doctor(client, "--only", check)
    assert code == Exit.WRONG_RESULT
    assert any(found in message for message in wrong(findings)), findings
    assert len(wrong(findings)) == 1 or check != "routing", findings
    assert doctor(client, "--only", check, "--fix", "--dry-run")[0] == Exit.WRONG_RESULT
    assert doctor(client, "--only", check, "--fix")[0] == 0
    assert doctor(client, "--only", check)[0] == 0


def test_a_link_whose_default_route_has_no_gateway_is_seen_and_fixed(testbed: Testbed) -> None:
    client, link = testbed.client, testbed.topology.links[1]
    whole, table = ("default", "via", str(link.gateway4), "dev", link.name), ("table", str(100 + link.number))
    client.ip("route", "delete", *whole)
    client.ip("route", "add", "default", "dev", link.name, "metric", "50")
    client.ip("rule", "delete", "from", str(link.client4))
    try:
        assert str(link.client4) in wrong(doctor(client, "--only", "routing")[1])[0]
        assert doctor(client, "--only", "routing", "--fix")[0] == 0
        assert client.ip("route", "show", *table).startswith(f"default dev {link.name}")
    finally:
        client.ip("route", "delete", "default", "dev", link.name, "metric", "50")
        client.ip("route", "add", *whole, "metric", str(link.number))
        client.ip("route", "replace", *whole, *table)


def test_what_is_asked_for_at_a_socket_is_fixed_and_the_record_says_so(testbed: Testbed) -> None:
    client = testbed.client
    client.run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.wireless.rp_filter=1")
    client.run("ip", "mptcp", "limits", "set", "subflows", "0")
    (shown,) = [each for each in doctor(client, "--only", "mptcp")[1] if each["state"] == "wrong"]
    assert (shown["fix_name"], shown["fix"]) == ("mptcp", ["ip mptcp limits set subflows 8"])
    try:
        answer = asked(b"mptcp\n", *client.command(CONFINED))
        assert (answer["ran"], answer["left"]) == ([{"command": shown["fix"][0], "failure": None}], [])
        left = [each for each in json.loads(EXAMINED.read_bytes())["findings"] if each["state"] == "wrong"]
        assert "rp_filter" in {each["fix_name"] for each in left} and "mptcp" not in {each["fix_name"] for each in left}
        assert len(asked(b"rp_filter\n", *client.command(CONFINED))["ran"]) == 2
        assert asked(b"rp_filter\n", *client.command(CONFINED))["ran"] == []
        assert asked(b"routing\n", *client.command(CONFINED))["code"] == Exit.USAGE
    finally:
        EXAMINED.unlink(missing_ok=True)
    assert doctor(client, "--only", "mptcp,rp_filter")[0] == 0


def test_nothing_is_fixed_that_tributary_router_keeps(testbed: Testbed) -> None:
    client = testbed.client
    client.ip("mptcp", "endpoint", "flush")
    with ready(*client.command([sys.executable, "-c", HOLDER])):
        found = doctor(client, "--only", "endpoints")[1]
    assert wrong(found) and not any(finding["fix"] for finding in found)
    assert all(finding["fix"] for finding in doctor(client, "--only", "endpoints")[1])


@pytest.mark.parametrize(
    ("what", "told"),
    [("tcp flags syn reset tcp option mptcp", "speaks plain TCP, others do not"), ("drop", "does not connect")],
)
def test_a_path_without_mptcp_is_distinguished_from_one_with_it(testbed: Testbed, what: str, told: str) -> None:
    link = testbed.topology.links[1]
    where = f"{testbed.topology.PROXY4}:{NATIVE_PORT}"
    with start_converter(testbed):
        assert doctor(testbed.client, "--path", where)[0] == 0
        with ruled(testbed.gateway, MIDDLEBOX.format(link.name, what)):
            code, findings = doctor(testbed.client, "--path", where)
    assert code == Exit.WRONG_RESULT
    assert [finding["state"] for finding in findings] == ["ok", "wrong"]
    assert wrong(findings)[0].startswith(f"{link.client4} {told}")

"""The doctor on a client with two access links, whose network is put out of order and mended."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from experiments.testbed.appliance import start_converter
from experiments.testbed.build import Testbed
from experiments.testbed.node import Node
from experiments.testbed.topology import NATIVE_PORT
from tests.netns.world import process, said_ready
from tributary.paths import ROOT
from tributary.settings.errors import Exit

# A daemon that holds the control socket and nothing else.
HOLDER = """\
import sys
from router.control import CONTROL
with CONTROL.server():
    print("ready", flush=True)
    sys.stdin.read()
"""
CHAIN = "chain arriving {{ type filter hook prerouting priority mangle; iifname {link} {what}; }}"


def doctor(node: Node, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    command = node.command([sys.executable, "-m", "doctor", "--role", "router", "--json", *arguments])
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def wrong(findings: list[dict[str, Any]]) -> list[str]:
    return [finding["message"] for finding in findings if finding["state"] == "wrong"]


@contextmanager
def stripped(gateway: Node, link: str, what: str) -> Iterator[None]:
    """A middlebox on the link, played by the gateway before its own sockets see a packet."""
    gateway.run("nft", f"table inet strip {{ {CHAIN.format(link=link, what=what)}; }}")
    try:
        yield
    finally:
        gateway.run("nft", "delete", "table", "inet", "strip")


@pytest.mark.smoke
def test_this_kernel_has_what_the_appliance_needs(testbed: Testbed) -> None:
    code, findings = doctor(testbed.client, "--only", "kernel,mptcp")
    assert (code, wrong(findings)) == (0, [])
    assert {finding["check"] for finding in findings} >= {"kernel, mptcp", "kernel, htb", "kernel, nftables", "MPTCP"}


def test_a_lost_rule_is_found_fixed_and_ok_again(testbed: Testbed) -> None:
    client, link = testbed.client, testbed.topology.links[1]
    client.ip("rule", "delete", "from", str(link.client4))
    code, findings = doctor(client, "--only", "routing")
    assert code == Exit.WRONG_RESULT
    assert wrong(findings) == [f"packets from {link.client4} of {link.name} leave by {testbed.topology.links[0].name}"]
    assert doctor(client, "--only", "routing", "--fix", "--dry-run")[0] == Exit.WRONG_RESULT
    assert doctor(client, "--only", "routing", "--fix")[0] == 0
    assert doctor(client, "--only", "routing")[0] == 0


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


def test_a_strict_filter_is_found_and_fixed(testbed: Testbed) -> None:
    client, link = testbed.client, testbed.topology.links[1]
    client.run("sysctl", "-q", "-w", "net.ipv4.conf.all.rp_filter=0", f"net.ipv4.conf.{link.name}.rp_filter=1")
    code, findings = doctor(client, "--only", "rp_filter")
    assert code == Exit.WRONG_RESULT
    assert link.name in wrong(findings)[0]
    assert doctor(client, "--only", "rp_filter", "--fix")[0] == 0


def test_an_address_without_an_endpoint_is_found_and_gets_one(testbed: Testbed) -> None:
    client, link = testbed.client, testbed.topology.links[1]
    client.ip("mptcp", "endpoint", "flush")
    code, findings = doctor(client, "--only", "endpoints")
    assert code == Exit.WRONG_RESULT
    assert any(str(link.client4) in what for what in wrong(findings))
    assert doctor(client, "--only", "endpoints", "--fix")[0] == 0


def test_nothing_is_fixed_that_tributary_router_keeps(testbed: Testbed) -> None:
    client = testbed.client
    client.ip("mptcp", "endpoint", "flush")
    with process(*client.command([sys.executable, "-c", HOLDER])) as daemon:
        said_ready(daemon)
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
        with stripped(testbed.gateway, link.name, what):
            code, findings = doctor(testbed.client, "--path", where)
    assert code == Exit.WRONG_RESULT
    assert [finding["state"] for finding in findings] == ["ok", "wrong"]
    assert wrong(findings)[0].startswith(f"{link.client4} {told}")

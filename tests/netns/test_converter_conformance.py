"""The native converter before RFC 8803's conformance suite, which is client and server at once: on the client."""

import json
import sys

import pytest

from tests.netns.converter_world import CLIENT, CLIENT6, CLIENTS, GATEWAY, World
from tributary.paths import ROOT

PORT = 2263
FORBIDDEN, UNREACHABLE = "192.0.2.1", "198.51.100.1"
NOT_OFFERED = {"fast-open-cookie-is-relayed", "fast-open-cookie-is-copied"}
"""RFC 8803 section 7.6 makes them optional, and a socket cannot do it."""
CONFIG = f"""
{CLIENTS}
[targets]
allow = ["{CLIENT}/32", "{CLIENT6}/128", "10.0.0.0/8"]
deny = ["{FORBIDDEN}/32"]
[timeouts]
request = "2s"
connect = "3s"
[[listen]]
kind = "convert"
address = "[::]:{PORT}"
cookies = true
"""


@pytest.fixture(scope="module")
def results(conv_built: World) -> dict[str, str]:
    conv = conv_built
    # The client is the gateway's router there, and says that nobody is.
    conv.gateway.ip("route", "add", f"{UNREACHABLE}/32", "via", CLIENT)
    conv.client.ip("route", "add", "unreachable", f"{UNREACHABLE}/32")
    suite = [sys.executable, "-m", "converter.conformance", "--converter", f"{GATEWAY}:{PORT}", "--json", "--mptcp"]
    where = ["--origin", f"{CLIENT},{CLIENT6}", "--forbidden", FORBIDDEN, "--unreachable", f"{UNREACHABLE}=1"]
    with conv.converter(CONFIG):
        for node in (conv.client, conv.gateway):
            node.sysctl(net__ipv4__tcp_fastopen=3)
        cookies = ["--cookies", "--source", f"{CLIENT},10.0.2.2"]
        told = conv.client.run("env", f"PYTHONPATH={ROOT}", *suite, *where, *cookies)
    return {each["name"]: each["result"] for each in json.loads(told)["checks"]}


def test_it_passes_every_check(results: dict[str, str]) -> None:
    assert {name for name, result in results.items() if result != "pass"} == NOT_OFFERED

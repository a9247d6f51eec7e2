"""The gateway of home routers at work: tunnels by its command, the native converter, the firewall of a deployed one."""

import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from experiments.home.network import GATEWAY, PROVIDERS, Network
from experiments.testbed import converter
from experiments.testbed.appliance import apply_settings
from experiments.testbed.node import Node, python
from tributary.paths import ROOT
from tributary.settings.errors import CommandError
from tributary.wireguard.enrolment import PORT, Enrolment

FIREWALL = ROOT / "kernel-config/tributary-firewall.nft"
CONVERT_PORT, HTTP_PORT = 5124, 3129
"""The router's converter comes by the first one; by the second, whoever measures one way alone."""
ROUTER = "home"
"""The name that the router is enrolled by."""
_INSIDE = "10.84.0.0/16"

_SETTINGS = """\
name = "{name}"
interface = "{interface}"
network = "{network}"
converter_ports = [{ports}]
"""
_SITE = """\
add element inet tributary-firewall client_networks4 {{ {clients} }}
add element inet tributary-firewall client_ports {{ {ports} }}
add rule inet tributary-firewall input udp dport {tunnels} accept
"""


def gateway_command(*words: str) -> list[str]:
    """What a gateway's unit runs, or its operator."""
    module = "gateway" if words[0] in ("up", "down", "sync", "serve", "dns", "plan", "check") else "command"
    return python(module, *words)


@dataclass(frozen=True)
class Gateway:
    """The command ``gateway`` at its node; its interface has a name that is free on the whole machine, since sockets
    of wireguard-go(1) have no namespace.
    """

    node: Node
    interface: str

    def command(self, *words: str) -> str:
        """What ``gateway`` with these words prints; raises CommandError."""
        folder = self.node.directory
        where = ("--settings", str(folder / "gateway.toml"), "--state-directory", str(folder / "gateway"))
        return self.node.run(*gateway_command(*words), *where)

    def enrol(self) -> Enrolment:
        (table,) = tomllib.loads(self.command("enrol", ROUTER))["enrolment"]
        return Enrolment.model_validate(table)

    def revoke(self) -> None:
        self.command("revoke", ROUTER)


@contextmanager
def gateway_at_work(network: Network, *, tunnels: bool, lan_prefix: str | None = None) -> Iterator[Gateway]:
    """It, for the length of the block: it lets routers in by keys, or by the addresses of their providers.

    With a ``lan_prefix`` routers' LANs have IPv6 addresses of it.
    """
    node, clients = network.gateway, _INSIDE if tunnels else PROVIDERS
    made = Gateway(node, f"g{os.getpid()}")
    apply_settings(node)
    ports = f"{CONVERT_PORT}, {HTTP_PORT}"
    node.write("tributary-site.nft", _SITE.format(clients=clients, ports=ports, tunnels=PORT))
    node.run("nft", "--includepath", str(node.directory), "--file", str(FIREWALL))
    if tunnels:
        settings = _SETTINGS.format(name=GATEWAY, interface=made.interface, network=_INSIDE, ports=ports)
        node.write("gateway.toml", settings + (f'lan_prefix = "{lan_prefix}"\n' if lan_prefix else ""))
        made.command("up")
    try:
        kinds = {"convert": CONVERT_PORT, "http": HTTP_PORT}
        listeners = [{"kind": kind, "address": f"[::]:{port}"} for kind, port in kinds.items()]
        text = converter.settings(node, "gateway-converter", (clients,), *listeners)
        with converter.start(node, "gateway-converter", text):
            yield made
    finally:
        if tunnels:
            with suppress(CommandError):
                made.command("down")

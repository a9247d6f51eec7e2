"""The home router at work: what an image's card makes of it, with the daemon for links, the converter, and the LAN's
rules. Without dnsmasq: the device has its address already.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.home.gateway import FIREWALL
from experiments.home.network import GATEWAY, LAN_SIDE, ROUTER, Network
from experiments.testbed import native
from experiments.testbed.appliance import apply_settings
from experiments.testbed.node import Node, python, wait_until
from experiments.testbed.topology import Link
from image.firstboot.actions import WriteFile
from image.firstboot.firewall import firewall
from image.firstboot.home import home
from image.firstboot.reading import read
from image.firstboot.settings import Role
from tributary.paths import ROOT
from tributary.wireguard import addresses
from tributary.wireguard.enrolment import Enrolment, text

_UNIT = ROOT / "image/firstboot/tributary-lan.service"
_RULES = "/etc/tributary/lan.nft"
_READY_WITHIN = 30.0
"""Seconds until all links are in use."""


@dataclass(frozen=True)
class Router:
    """At its node; ``enrolment`` None: without tunnels."""

    node: Node
    links: tuple[Link, ...]
    enrolment: Enrolment | None

    @property
    def gateway(self) -> str:
        """The gateway's address on the way that the router takes to it: inside the tunnels, if there are any."""
        return str(self.enrolment.inside) if self.enrolment else GATEWAY

    def source(self, link: Link) -> str:
        """The address by which a connection of the router's own takes this link alone: that of the tunnel, if any."""
        if self.enrolment is None:
            return str(link.client4)
        return str(addresses.tunnel_address(self.enrolment.addresses, self.links.index(link) + 1))

    def wait_until_whole(self) -> None:
        """Until all links are in use, and tunnels, if any, for everything; raises CommandError, exit 71."""
        wait_until(self._is_whole, _READY_WITHIN, "the router's links are not in use")

    def wait_until_renewed(self, since: float) -> None:
        """Until all tunnels have keys made after ``since``, in seconds since 1970; raises CommandError, exit 71."""
        renewed = "a tunnel of the router's has no new keys"
        wait_until(lambda: self._oldest_handshake() > since, _READY_WITHIN, renewed)

    def _oldest_handshake(self) -> float:
        lines = self.node.run("wg", "show", "all", "latest-handshakes").splitlines()
        return min(float(line.split()[-1]) for line in lines if line.startswith(_prefix()))

    def _is_whole(self) -> bool:
        endpoints = {each["address"] for each in json.loads(self.node.ip("-j", "mptcp", "endpoint"))}
        defaults = self.node.ip("route", "show", "default").splitlines()
        leaves_by = f"dev {_prefix()}0 " if self.enrolment else f"dev {self.links[0].name} "
        return endpoints == set(map(self.source, self.links)) and leaves_by in f"{defaults[0]} "


def _prefix() -> str:
    """Of the tunnels' interfaces: free on the whole machine, since sockets of wireguard-go(1) have no namespace."""
    return f"h{os.getpid()}-"


def files(
    links: tuple[Link, ...], enrolment: Enrolment | None, share: float | None = None, probe: str = "", lan: str = ""
) -> dict[str, str]:
    """The files of a router with such a card, by their names; ``probe`` and ``lan`` are further lines of these. Pure.

    With a ``share`` the card says how fast links are: so much of what they carry.
    """
    lines = [] if enrolment else [f'gateway = "{GATEWAY}"']
    lines += [f"[probe]\n{probe}", "[tunnels]", f'prefix = "{_prefix()}"']
    lines += ["[lan]", f'interface = "{LAN_SIDE}"', f'address = "{ROUTER}/24"', lan]
    for link in links:
        lines += [f"[wan.{link.name}]", f'interface = "{link.name}"']
        if share is not None:
            rates = {"download": link.down.rate, "upload": link.up.rate}
            lines += [f'{key} = "{int(share * rate.amount)}bit"' for key, rate in rates.items()]
    made = "\n".join(lines) + "\n" + (text(enrolment) if enrolment else "")
    card = read(made.encode(), Role.ROUTER)
    assert card.lan and card.target, "a card of ours is complete"
    actions = (*home(card, card.lan, card.target), *firewall(card))
    return {Path(each.path).name: each.text for each in actions if isinstance(each, WriteFile)}


@contextmanager
def router_at_work(
    network: Network, enrolment: Enrolment | None, share: float | None = None, *, probe: str = "", lan: str = ""
) -> Iterator[Router]:
    """It, for the length of the block; with a ``share`` of what links carry as their rates."""
    node, links = network.router, network.links
    apply_settings(node)
    for name, content in files(links, enrolment, share, probe, lan).items():
        node.write(name, content).chmod(0o600)
    folder = node.directory
    with (folder / "converter.toml").open("a") as file:
        file.write(f'[control]\nsocket = "{folder}/converter.sock"\n')
    shutil.copy(FIREWALL, folder)
    (folder / "tributary-site.nft").unlink(missing_ok=True)
    node.run("nft", "--includepath", str(folder), "--file", str(folder / FIREWALL.name))
    for command in _lan_commands(_UNIT.read_text()):
        node.run(*command.replace(_RULES, str(folder / "lan.nft")).split())
    settings = ("run", str(folder / "router.toml"), "--state-directory", str(folder / "router"))
    converter = [str(native.build().converter), "--config", str(folder / "converter.toml")]
    with (
        node.start("converter", converter).wait_until_ready(),
        node.start("router", python("router", *settings)).wait_until_ready(),
    ):
        made = Router(node, links, enrolment)
        made.wait_until_whole()
        yield made


def _lan_commands(unit: str) -> list[str]:
    lines = [line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart=")]
    return [line.removeprefix("-") for line in lines]

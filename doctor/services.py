"""Whether the appliance's services listen, with MPTCP, behind a firewall: ss(8), nft(8)."""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doctor.findings import Finding, State, ok
from tributary.kernel.process import output, run
from tributary.settings.errors import CommandError, Exit

SERVICES = {"squid": "tributary-squid", "tributary-conve": "tributary-converter"}
"""Units by the name of their process, which the kernel cuts after 15 characters (proc_pid_comm(5))."""

CONSOLE = "tributary-console"
FIREWALL = "tributary-firewall"
"""The unit and its table."""
LAN, LAN_RULES = "tributary-lan", Path("/etc/tributary/lan.nft")
"""Those of a home router's LAN, and the file that the unit loads, if it is there."""
TUNNELS = "tributary-gateway"
"""Those of a gateway that home routers reach through tunnels."""

_LISTING = ("systemctl", "list-unit-files", "--plain", "--no-legend", "--no-pager", "tributary-*")
_STARTED = ("enabled", "enabled-runtime")
_TIMEOUT = 10.0
_VERSIONS = {"inet": ("IPv4", "IPv6"), "ip": ("IPv4",), "ip6": ("IPv6",)}
"""The IP versions of each table family (nft(8), ADDRESS FAMILIES)."""


@dataclass(frozen=True)
class Listener:
    """A listening socket: the process's name, where it listens, and whether it takes MPTCP."""

    process: str
    address: str
    multipath: bool


def parse_listeners(tcp: str, multipath: str) -> list[Listener]:
    """From ``ss -Htlnp`` and ``ss -HlnpM``.

    The TCP socket of an MPTCP listener may be listed as well, without a process: it is recognized by its address.
    """
    with_mptcp = [Listener(process, address, True) for process, address in _listed(multipath)]
    taken = {listener.address for listener in with_mptcp}
    return with_mptcp + [Listener(name, address, False) for name, address in _listed(tcp) if address not in taken]


def _listed(printed: str) -> Iterable[tuple[str, str]]:
    for line in printed.splitlines():
        address = re.search(r"\S+:\d+(?=\s)", line)
        # Of one that is activated by its socket both the service manager and the service have it.
        processes = dict.fromkeys(re.findall(r'\("([^"]+)",pid=', line))
        yield from ((process, address[0]) for process in processes if address)


def units() -> dict[str, bool]:
    """The appliance's units that are installed, each with whether the service manager starts it by itself.

    Empty where there are none, as beside a checkout, or no service manager; raises CommandError if it does not answer.
    """
    if shutil.which(_LISTING[0]) is None:
        return {}
    done = run(_LISTING, timeout=_TIMEOUT)
    if done.returncode and done.stderr:  # without any unit its exit code is 1 as well
        raise CommandError(Exit.SYSTEM, f"{' '.join(_LISTING)}: {done.stderr.strip()}")
    return parse_units(done.stdout)


def parse_units(printed: str) -> dict[str, bool]:
    """From ``systemctl list-unit-files``: services without suffix, no templates: their instances listen elsewhere."""
    listed = (line.split() for line in printed.splitlines() if "@" not in line)
    return {words[0].removesuffix(".service"): words[1] in _STARTED for words in listed}


def sockets(units: Mapping[str, bool]) -> dict[str, frozenset[str]]:
    """Where the service manager is to listen for converters until a first connection starts them, by their units: of
    those whose sockets are enabled among ``units``. Raises CommandError if it does not answer.
    """
    by_socket = [unit for unit in SERVICES.values() if units.get(f"{unit}.socket")]
    asking = ["systemctl", "show", "--property=Listen"]
    return {unit: parse_socket(output([*asking, f"{unit}.socket"], timeout=_TIMEOUT)) for unit in by_socket}


def parse_socket(printed: str) -> frozenset[str]:
    """From ``systemctl show --property=Listen``: a line such as ``Listen=[::]:3128 (Stream)`` for each address."""
    return frozenset(map(_place, re.findall(r"=(\S+:\d+)(?=\s|$)", printed)))


def _place(address: str) -> str:
    """An address and port in one form: ss has * for what systemd calls [::], and the device behind the address."""
    return re.sub(r"%[^\]:]+", "", address).replace("[::]:", "*:")


def judge_listeners(
    listeners: Sequence[Listener], units: Mapping[str, bool], sockets: Mapping[str, Collection[str]]
) -> Iterator[Finding]:
    """The converters that are enabled among ``units``, or have ``sockets``, listen, and whichever listens does so with
    MPTCP. Where no unit is installed, as beside a checkout, both are meant.
    """
    for process, unit in SERVICES.items():
        places = sockets.get(unit, ())
        own = [each for each in listeners if each.process == process or _waits_for_first(each, places)]
        if own or not units or units.get(unit) or unit in sockets:
            yield _judge_one(unit, own) if own else _silent(f"{unit}.socket" if unit in sockets else unit)


def _waits_for_first(listener: Listener, places: Collection[str]) -> bool:
    """Whether the service manager listens at one of ``places``: it may listen for others, too."""
    return listener.process == "systemd" and listener.multipath and _place(listener.address) in places


def _judge_one(unit: str, own: Sequence[Listener]) -> Finding:
    if with_mptcp := [listener.address for listener in own if listener.multipath]:
        return ok(unit, f"takes MPTCP at {', '.join(dict.fromkeys(with_mptcp))}")
    where = ", ".join(listener.address for listener in own)
    fix = (("systemctl", "restart", unit),)
    advice = "it has to be started by its own unit"
    return Finding(unit, State.WRONG, f"takes TCP alone at {where}", fix, advice, cuts=True)


def judge_console(listeners: Sequence[Listener], *, enabled: bool) -> list[Finding]:
    """The console's page is served, if it is ``enabled``; where one is served, and where nobody has a console."""
    own = [listener.address for listener in listeners if listener.process == CONSOLE[:15]]
    if own:
        return [ok(CONSOLE, f"the page is at {', '.join(own)}")]
    return [_silent(CONSOLE)] if enabled else []


def _silent(unit: str) -> Finding:
    fix = (("systemctl", "start", unit),)
    return Finding(unit, State.WRONG, "does not listen", fix, f"journalctl -u {unit} says why it ended")


def has_nft() -> bool:
    """Whether nft is installed, also where the user's own PATH lacks the folders of such programs."""
    return shutil.which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is not None


WITHOUT_NFT = Finding(
    "firewall",
    State.WRONG,
    "nft is not installed: nothing loads the rules, and everything that listens can be reached",
    advice="apt install nftables, and start again what loads rules; docs/security.md lists what they accept",
)


def judge_firewall(ruleset: Mapping[str, Any], *, enabled: bool) -> Finding:
    """From ``nft --terse -json list ruleset``: for each IP version some chain drops input that no rule accepts, and the
    playbook's table is there if it is ``enabled``.
    """
    chains = [entry["chain"] for entry in ruleset.get("nftables", []) if "chain" in entry]
    if enabled and FIREWALL not in {chain["table"] for chain in chains}:
        return _without_table(FIREWALL)
    guards = [chain for chain in chains if chain.get("hook") == "input" and chain.get("policy") == "drop"]
    names = " and ".join(dict.fromkeys(f"{chain['family']} {chain['table']}" for chain in guards))
    guarded = {version for chain in guards for version in _VERSIONS.get(chain["family"], ())}
    if len(guarded) == 2:
        return ok("firewall", f"input that no rule accepts is dropped by {names}")
    advice = "ansible/gateway.yml has one (role firewall); docs/security.md lists what it accepts"
    message = "everything that listens can be reached"
    if guarded:
        (missing,) = {"IPv4", "IPv6"} - guarded
        message += f" over {missing}: {names} drops nothing of that"
    return Finding("firewall", State.WRONG, message, advice=advice)


def _without_table(unit: str) -> Finding:
    fix = (("systemctl", "reload-or-restart", unit),)
    return Finding("firewall", State.WRONG, f"{unit}.service is enabled, and its table is not there", fix)


def judge_translation(ruleset: Mapping[str, Any], enabled: Iterable[str]) -> Iterator[Finding]:
    """Each unit that is ``enabled``, of a home router's LAN or a gateway's tunnels, has its table: without it nobody
    behind them is translated, and a gateway whose settings are wrong has no tunnels either.
    """
    there = _tables(ruleset)
    yield from (_without_table(unit) for unit in enabled if ("inet", unit) not in there)


def judge_forwarding(ruleset: Mapping[str, Any]) -> Iterator[Finding]:
    """No other program's chain, such as Docker's or ufw's, drops what the tunnels' rules accept: all chains must.

    One is right if a rule of its table accepts packets by the name of the tunnels' interface or by their network.
    """
    entries = ruleset.get("nftables", [])
    rules = [(_table_of(entry["rule"]), entry["rule"]["expr"]) for entry in entries if "rule" in entry]
    own = [each["match"] for table, rule in rules if table == ("inet", TUNNELS) for each in rule if "match" in each]
    names = [each["right"] for each in own if each["left"] == _IN_BY and isinstance(each["right"], str)]
    if not names:
        return
    names += [each["right"]["prefix"]["addr"] for each in own if each["left"] == _TO and "prefix" in each["right"]]
    named = re.compile("|".join(re.escape(json.dumps(name)) for name in names))
    right = {table for table, rule in rules if {"accept": None} in rule and named.search(json.dumps(rule))}
    has_ipv6 = any(each.get("set", {}).get("name") == "refused_targets6" for each in entries)
    for chain in (entry["chain"] for entry in entries if "chain" in entry):
        versions = [each for each in _VERSIONS.get(chain["family"], ()) if has_ipv6 or each == "IPv4"]
        drops = (chain.get("hook"), chain.get("policy")) == ("forward", "drop") and _table_of(chain) not in right
        if drops and versions:
            yield _forwards_nothing(chain, versions, names[0])


_IN_BY, _TO = {"meta": {"key": "iifname"}}, {"payload": {"protocol": "ip", "field": "daddr"}}
"""What rules compare: the interface that a packet came in by, and where it goes."""


def _forwards_nothing(chain: Mapping[str, Any], versions: Sequence[str], interface: str) -> Finding:
    where = f"{chain['family']} {chain['table']}"
    message = f"{where}: its chain {chain['name']} drops what home routers send through this gateway over"
    advice = (
        f"have it accept what comes in or goes out by {interface}; for ufw: ufw route allow in on {interface}; for"
        f" Docker: iptables -I DOCKER-USER -i {interface} -j ACCEPT, and the same with -o"
    )
    return Finding("firewall", State.WRONG, f"{message} {' and '.join(versions)}", advice=advice)


def _table_of(part: Mapping[str, Any]) -> tuple[str, str]:
    """Family and name of the table of a chain or a rule."""
    return part["family"], part["table"]


def _tables(ruleset: Mapping[str, Any]) -> list[tuple[str, str]]:
    tables = (entry["table"] for entry in ruleset.get("nftables", []) if "table" in entry)
    return [(table["family"], table["name"]) for table in tables]


def judge_guard(listeners: Sequence[Listener], ruleset: Mapping[str, Any]) -> Iterator[Finding]:
    """A Squid that takes MPTCP, which is none of Debian's own, has its guard (docs/squid.md), which a flush takes."""
    if ("inet", "squid") not in _tables(ruleset) and any(
        each.process == "squid" and each.multipath for each in listeners
    ):
        unit = SERVICES["squid"]
        message = "runs without its guard, the nft table inet squid"
        yield Finding(unit, State.WRONG, message, (("systemctl", "restart", unit),), cuts=True)


def parse_ruleset(printed: str) -> Mapping[str, Any]:
    """nft's output as JSON, which says its version at least; raises CommandError without output."""
    if not printed.strip():
        raise CommandError(Exit.SYSTEM, "nft printed no ruleset")
    return dict(json.loads(printed))

"""Whether the appliance's services listen, with MPTCP, behind a firewall: ss(8), nft(8)."""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from doctor.findings import Finding, State, ok
from tributary.kernel.process import run
from tributary.settings.errors import CommandError

SERVICES = {"squid": "tributary-squid", "tributary-conve": "tributary-converter"}
"""Units by the name of their process, which the kernel cuts after 15 characters (proc_pid_comm(5))."""

CONSOLE = "tributary-console"

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

    The TCP socket of an MPTCP listener may be listed as well, and is recognized by its address (ss has no process for
    it).
    """
    with_mptcp = [Listener(process, address, True) for process, address in _listed(multipath)]
    taken = {listener.address for listener in with_mptcp}
    return with_mptcp + [Listener(name, address, False) for name, address in _listed(tcp) if address not in taken]


def _listed(printed: str) -> Iterable[tuple[str, str]]:
    for line in printed.splitlines():
        address = re.search(r"\S+:\d+(?=\s)", line)
        process = re.search(r'users:\(\("([^"]+)"', line)
        if address and process:
            yield process[1], address[0]


def is_enabled(unit: str) -> bool:
    """Whether the service manager starts it by itself; no where there is none."""
    try:
        return run(["systemctl", "--quiet", "is-enabled", unit], timeout=_TIMEOUT).returncode == 0
    except (OSError, CommandError):
        return False


def judge_listeners(listeners: Sequence[Listener], enabled: Collection[str]) -> list[Finding]:
    """The converters that are ``enabled`` listen, and whichever listens does so with MPTCP. Without any that is
    enabled, as beside a checkout, both are meant.
    """
    meant = enabled or SERVICES.values()
    heard = {listener.process for listener in listeners}
    wanted = {process: unit for process, unit in SERVICES.items() if unit in meant or process in heard}
    return [finding for process, unit in wanted.items() for finding in _judge_one(process, unit, listeners)]


def _judge_one(process: str, unit: str, listeners: Sequence[Listener]) -> Iterable[Finding]:
    own = [listener for listener in listeners if listener.process == process]
    if not own:
        yield _silent(unit)
    elif not any(listener.multipath for listener in own):
        where = ", ".join(listener.address for listener in own)
        fix = (("systemctl", "restart", unit),)
        advice = "it has to be started by its own unit"
        yield Finding(unit, State.WRONG, f"takes TCP alone at {where}", fix, advice, cuts=True)
    else:
        where = ", ".join(listener.address for listener in own if listener.multipath)
        yield ok(unit, f"takes MPTCP at {where}")


def judge_console(listeners: Sequence[Listener], *, enabled: bool) -> list[Finding]:
    """The console's page is served, if it is ``enabled``; where one is served, and where nobody has a console."""
    own = [listener.address for listener in listeners if listener.process == CONSOLE[:15]]
    if own:
        return [ok(CONSOLE, f"the page is at {', '.join(own)}")]
    return [_silent(CONSOLE)] if enabled else []


def _silent(unit: str) -> Finding:
    fix = (("systemctl", "start", unit),)
    return Finding(unit, State.WRONG, "does not listen", fix, f"journalctl -u {unit} says why it ended")


def judge_firewall(ruleset: Mapping[str, Any]) -> Finding:
    """From ``nft -json list ruleset``: for each IP version some chain drops input that no rule accepts."""
    chains = [entry["chain"] for entry in ruleset.get("nftables", []) if "chain" in entry]
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


def parse_ruleset(printed: str) -> Mapping[str, Any]:
    """nft's output as JSON, empty without output."""
    return dict(json.loads(printed)) if printed.strip() else {}

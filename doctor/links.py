"""Whether packets of each access link's address leave by that link, come in, and have an MPTCP endpoint: ip(8)."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from doctor.findings import Finding, State, ok
from tributary.daemons.control import is_served
from tributary.kernel.process import QUICK, output, printed, run

_FAR = {4: "203.0.113.1", 6: "2001:db8::1"}
"""A documentation address behind the default route (RFC 5737, RFC 3849): nothing is sent there."""

_STRICT = "1"  # rp_filter: RFC 3704 section 2.2
_REFUSED = 2
"""ip(8)'s exit code for what the kernel answers, such as that there is no route."""


@dataclass(frozen=True)
class Access:
    """An ``address`` of an ``interface`` that has a default route.

    ``gateway`` is what ip(8) takes behind "via", None where a link has only one other end (PPPoE, LTE, tunnels).
    ``leaves_by`` is the interface that packets from this address take, None if they have no route.
    """

    interface: str
    address: str
    gateway: str | None
    leaves_by: str | None


def look() -> list[Access]:
    """The current access links; raises CommandError if ip(8) fails."""
    gateways = default_gateways({version: _ip(f"-{version}", "route", "show", "default") for version in (4, 6)})
    return accesses(_ip("address"), gateways, _way_out)


def endpoints() -> dict[str, str]:
    """The addresses that the kernel makes subflows from, with their interfaces, if any; raises CommandError."""
    found = _ip("mptcp", "endpoint", "show")
    return {entry["address"]: entry.get("dev", "") for entry in found if entry.get("subflow")}


def router_runs() -> bool:
    """Whether tributary-router has its control socket in this network namespace."""
    return is_served("router")


def default_gateways(routes: Mapping[int, Iterable[Mapping[str, Any]]]) -> dict[tuple[str, int], str | None]:
    """The gateway by interface and IP version, from what ``ip -json route`` has for each version, the best route first.

    One route may have several next hops; one with a type, such as "unreachable", leads nowhere.
    """
    found: dict[tuple[str, int], str | None] = {}
    for version, of_version in routes.items():
        for route in of_version:
            hops = [] if "type" in route else route.get("nexthops", [route])
            for hop in hops:
                if "dev" in hop:
                    found.setdefault((hop["dev"], version), _gateway(hop))
    return found


def _gateway(hop: Mapping[str, Any]) -> str | None:
    if "via" in hop:  # of the other IP version
        return f"{hop['via']['family']} {hop['via']['host']}"
    return hop.get("gateway")


def accesses(
    interfaces: Iterable[Mapping[str, Any]],
    gateways: Mapping[tuple[str, int], str | None],
    way_out: Callable[[str], str | None],
) -> list[Access]:
    """From ``ip -json address``: every global address whose interface has a default route of its IP version."""
    found = []
    for interface in interfaces:
        for entry in interface.get("addr_info", []):
            address, device = entry.get("local", ""), interface["ifname"]
            if entry.get("scope") == "global" and (way := (device, ip_address(address).version)) in gateways:
                found.append(Access(device, address, gateways[way], way_out(address)))
    return found


def judge_routes(links: Sequence[Access]) -> list[Finding]:
    """Each address leaves by its own interface, or a subflow from it goes by another link or nowhere."""
    if not links:
        return [Finding("routing", State.WRONG, "no interface has a default route", advice="plug an access link in")]
    astray = [link for link in links if link.leaves_by != link.interface]
    if not astray:
        count = len({link.interface for link in links})
        return [ok("routing", f"packets leave by their own link (of {count})")]
    tables = {name: 100 + number for number, name in enumerate(sorted({link.interface for link in links}), 1)}
    return [_stray(link, str(tables[link.interface])) for link in astray]


def _stray(link: Access, table: str) -> Finding:
    version = f"-{ip_address(link.address).version}"
    via = ("via", *link.gateway.split()) if link.gateway else ()
    route = ("ip", version, "route", "replace", "default", *via, "dev", link.interface, "table", table)
    rule = ("ip", version, "rule", "add", "from", link.address, "lookup", table)
    by = f"by {link.leaves_by}" if link.leaves_by else "nowhere"
    advice = "tributary-router keeps such rules by itself, also when addresses change"
    message = f"packets from {link.address} of {link.interface} leave {by}"
    return Finding("routing", State.WRONG, message, (route, rule), advice)


def judge_endpoints(links: Sequence[Access], endpoints: Mapping[str, str], kept: bool) -> list[Finding]:
    """The kernel makes subflows from one address of each IP version of each access link.

    Where they are ``kept`` by tributary-router, they may be those of its tunnels instead, and are its own to fix.
    """
    tunnels = sorted(set(endpoints.values()) - {link.interface for link in links} - {""})
    if kept and tunnels:
        return [ok("endpoints", f"tributary-router has them in its tunnels: {', '.join(tunnels)}")]
    # A second subflow over the same link would gain nothing.
    ways: dict[tuple[str, int], list[Access]] = {}
    for link in links:
        ways.setdefault((link.interface, ip_address(link.address).version), []).append(link)
    missing = [way[0] for way in ways.values() if not any(link.address in endpoints for link in way)]
    if links and not missing:
        return [ok("endpoints", "every access link has one")]
    return [_without_endpoint(link, kept) for link in missing]


def _without_endpoint(link: Access, kept: bool) -> Finding:
    message = f"{link.address} of {link.interface} has none, so no subflow is made from it"
    if kept:
        return Finding("endpoints", State.WRONG, message, advice="'tributary links' says why the link is not used")
    fix = ("ip", "mptcp", "endpoint", "add", link.address, "dev", link.interface, "subflow")
    return Finding("endpoints", State.WRONG, message, (fix,))


def judge_filters(strict: Sequence[str], interfaces: int) -> Finding:
    """``strict`` are the interfaces with strict reverse path filtering, of as many ``interfaces`` with addresses."""
    if not strict or interfaces < 2:
        return ok("rp_filter", "joins may come in by any link")
    # A dot in a VLAN's name is written as / where dots separate (sysctl.d(5)).
    names = [name.replace(".", "/") for name in ("all", *strict)]
    fix = tuple(("sysctl", "-w", f"net.ipv4.conf.{name}.rp_filter=2") for name in names)
    message = f"{', '.join(strict)} drop what comes in by another link than answers would leave by: 1 (strict), not 2"
    return Finding("rp_filter", State.WRONG, message, fix)


def strictly_filtered(proc: Path = Path("/proc/sys")) -> list[str]:
    """Interfaces whose IPv4 rp_filter is strict: the larger of its value and that of all applies (ip-sysctl.rst)."""
    values = dict(_each_filter(proc / "net/ipv4/conf"))
    of_all = values.pop("all", "0")
    return sorted(
        name for name, value in values.items() if max(value, of_all) == _STRICT and name not in ("default", "lo")
    )


def _each_filter(interfaces: Path) -> Iterator[tuple[str, str]]:
    for each in interfaces.glob("*/rp_filter"):
        with suppress(OSError):  # the interface is gone
            yield each.parent.name, each.read_text().strip()


def _way_out(address: str) -> str | None:
    version = ip_address(address).version
    done = run(["ip", "-json", f"-{version}", "route", "get", _FAR[version], "from", address], timeout=QUICK)
    routes = [] if done.returncode == _REFUSED else _parsed(printed(done))
    return str(routes[0]["dev"]) if routes and "dev" in routes[0] else None


def _ip(*words: str) -> list[dict[str, Any]]:
    return _parsed(output(["ip", "-json", *words], timeout=QUICK))


def _parsed(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)) if text.strip() else []

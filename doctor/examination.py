"""The checks of each role."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from functools import cache, partial
from pathlib import Path

from doctor import data_integrity, fleet, kernel, limits, links, multipath, path, services, sysctls
from doctor.findings import Finding, State
from tributary.api import fleet_file
from tributary.kernel import low_mark, sysctl
from tributary.kernel.mptcp_switch import SWITCH
from tributary.kernel.process import output
from tributary.settings.errors import CommandError, Exit, refused
from tributary.settings.hosts import joined

_CHECKOUT = Path(__file__).parents[1] / "kernel-config"
_SETTINGS = (_CHECKOUT / "90-tributary.conf", Path("/usr/lib/sysctl.d/90-tributary.conf"))
"""The kernel settings: in a checkout, or where the packages put them."""
_RETRANSMISSIONS = (_CHECKOUT / "retransmissions.conf", Path("/usr/lib/tributary/retransmissions.conf"))
"""Settings that are only applied together."""

_LOW_MARK = "tributary-low-mark"

ON_REQUEST = frozenset({"mptcp", "settings", "rp_filter", "endpoints", "listeners", "limits"})
"""Checks whose fixes the console's page may ask for: settings of the kernel, services that do not listen. Not routing:
a wrong rule may lock out who asks. Not the clock: it is wrong until some minutes after its fix.
"""

_TIMEOUT = 20.0
"""Time-out in seconds of a program that reads something."""

_NOT_RECORDED = frozenset({"kernel"})
"""What the services that record leave out: trying the kernel's features loads modules and makes namespaces, which
these services may not; and features do not change by the hour.
"""

Check = Callable[[], Iterable[Finding]]


class Role(Enum):
    """``KERNEL``: any machine that may become one of the others, or a client."""

    KERNEL = "kernel"
    GATEWAY = "gateway"
    ROUTER = "router"


def checks(role: Role) -> Mapping[str, Check]:
    """By name, in the order in which one builds on another."""
    return {name: check for name, (check, roles) in _CHECKS.items() if role in roles}


def recorded(role: Role) -> list[str]:
    """The checks that are in a record, by the hour as after a fix."""
    return [name for name in checks(role) if name not in _NOT_RECORDED]


def own_role() -> Role:
    """What this machine is; a gateway also where the service manager does not answer."""
    with suppress(CommandError):
        if links.router_runs() or services.units().get("tributary-router"):
            return Role.ROUTER
    return Role.GATEWAY


def examine(role: Role, names: Sequence[str]) -> list[Finding]:
    """The findings of these checks of the role, for all of which sockets and units are listed once."""
    _units.cache_clear()
    _listening.cache_clear()
    known = checks(role)
    return [_named(finding, name) for name in names for finding in _found(name, known[name])]


def _found(name: str, check: Check) -> Iterator[Finding]:
    """What ``check`` finds; of a program that fails, hangs or prints something else nothing follows about the machine,
    nor about what the other checks find.
    """
    try:
        yield from check()
    except CommandError as failure:
        yield Finding(name, State.UNKNOWN, str(failure))
    except (OSError, ValueError, LookupError, TypeError) as error:
        yield Finding(name, State.UNKNOWN, f"what was read makes no sense: {error!r}")


def _named(finding: Finding, name: str) -> Finding:
    is_fixed_on_request = name in ON_REQUEST and finding.state is State.WRONG and finding.fix and not finding.cuts
    return replace(finding, fix_name=name) if is_fixed_on_request else finding


def path_to(server: str, port: int) -> list[Finding]:
    """Whether MPTCP gets from each of this host's access links to ``server``, an IP address."""
    return list(_found(f"path to {joined(server, port)}", partial(_path, server, port)))


def _path(server: str, port: int) -> list[Finding]:
    version = ":" in server
    addresses = [link.address for link in links.look() if (":" in link.address) == version]
    return path.judge(joined(server, port), [path.attempt(address, server, port) for address in addresses])


def _multipath() -> Iterator[Finding]:
    switch = sysctl.read(SWITCH)
    yield multipath.judge_switch(switch)
    if switch is not None:
        yield from multipath.judge_counters(data_integrity.read())
        yield multipath.judge_limits(multipath.parse_limits(_printed("ip", "mptcp", "limits", "show")))


def _settings() -> Iterator[Finding]:
    yield from sysctls.examine(_SETTINGS)
    yield from sysctls.examine(_RETRANSMISSIONS, together=True)
    if _units().get(_LOW_MARK):  # it is disabled where an administrator wants it so
        yield multipath.judge_low_mark(os.uname().release, attached=low_mark.is_kept())


def _filters() -> Iterator[Finding]:
    interfaces = {link.interface for link in links.look()}
    strict = [name for name in links.strictly_filtered() if name in interfaces]
    yield links.judge_filters(strict, len(interfaces))


def _listeners() -> Iterator[Finding]:
    units = _units()
    yield from services.judge_listeners(_listening(), units, services.sockets(units))


def _fleet() -> Iterator[Finding]:
    status = fleet_file.read(time.time())
    if status is not None or _units().get(fleet.UNIT):
        yield fleet.judge(status)


@cache
def _units() -> Mapping[str, bool]:
    return services.units()


@cache
def _listening() -> list[services.Listener]:
    return services.parse_listeners(_printed("ss", "-Htlnp"), _printed("ss", "-HlnpM"))


def _firewall() -> Iterator[Finding]:
    if not services.has_nft():
        yield services.WITHOUT_NFT
        return
    ruleset = services.parse_ruleset(_printed("nft", "--terse", "-json", "list", "ruleset"))
    started: Mapping[str, bool] = {}
    with suppress(CommandError):  # what is dropped is known also where the service manager does not answer
        started = _units()
    yield services.judge_firewall(ruleset, enabled=started.get(services.FIREWALL, False))
    has_rules = {services.LAN: services.LAN_RULES.exists(), services.TUNNELS: True}
    wanted = [unit for unit, has in has_rules.items() if has and started.get(unit)]
    yield from services.judge_translation(ruleset, wanted)
    yield from services.judge_forwarding(ruleset)
    yield from services.judge_guard(_listening(), ruleset)


def _limits() -> Iterator[Finding]:
    tracked = (sysctl.number(f"net/netfilter/nf_conntrack_{name}") for name in ("count", "max"))
    yield limits.judge_files(sysctl.number("fs/nr_open") or 0)
    yield limits.judge_tracking(*tracked)


def _clock() -> Iterator[Finding]:
    printed = _printed("timedatectl", "show", "--property=NTPSynchronized", "--value")
    yield limits.judge_clock(printed.strip())


def _printed(*command: str) -> str:
    """What ``command`` prints; raises CommandError if it is missing, fails or hangs."""
    with refused(Exit.SYSTEM, command[0], "cannot be run"):
        return output(command, timeout=_TIMEOUT)


_EVERYWHERE = frozenset(Role)
_INSTALLED = frozenset({Role.GATEWAY, Role.ROUTER})
_CHECKS: Mapping[str, tuple[Check, frozenset[Role]]] = {
    "kernel": (kernel.examine, _EVERYWHERE),
    "mptcp": (_multipath, _EVERYWHERE),
    "integrity": (lambda: () if sysctl.read(SWITCH) is None else data_integrity.sample(), _INSTALLED),
    "settings": (_settings, _INSTALLED),
    "rp_filter": (_filters, _INSTALLED),
    "routing": (lambda: links.judge_routes(links.look()), frozenset({Role.ROUTER})),
    "endpoints": (
        lambda: links.judge_endpoints(links.look(), links.endpoints(), links.router_runs()),
        frozenset({Role.ROUTER}),
    ),
    "listeners": (_listeners, frozenset({Role.GATEWAY})),
    "fleet": (_fleet, frozenset({Role.GATEWAY})),
    "console": (
        lambda: services.judge_console(_listening(), enabled=_units().get(services.CONSOLE, False)),
        _INSTALLED,
    ),
    "firewall": (_firewall, _INSTALLED),
    "limits": (_limits, frozenset({Role.GATEWAY})),
    "clock": (_clock, _INSTALLED),
}

"""Runs the suite against the reference converter and the mutants, many at a time.

    python3 -m tests.commands.conformance.proof loopback|namespace NAME...

prints {converter: {check: [result, expected, came]}}. "loopback" needs nothing; "namespace" needs root, and gives each
converter a network namespace of its own.
"""

import json
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from ipaddress import ip_address
from multiprocessing import get_context
from socket import AF_INET
from typing import Any

from converter.conformance.checks import ALL
from converter.conformance.rig import Settings, Unreachable, run
from tests.apart import leave_network
from tests.commands.conformance.mutants import MUTANTS, Mutant
from tests.commands.conformance.reference import Converter, World

AT_ONCE = 16
Verdicts = dict[str, list[str]]

REFERENCE = Mutant("Reference", Converter, frozenset())
BY_NAME = {each.name: each for each in [REFERENCE, *MUTANTS]}

FORBIDDEN = "192.0.2.1"
LOOPBACK_ORIGIN = "127.0.0.77"
IPV4, OTHER, UNREACHABLE, IPV6 = "10.88.3.1", "10.88.3.2", "10.88.3.99", "fd88::1"
PORT_UNREACHABLE = 3
REJECT = f"""
table inet conformance {{
    chain input {{
        type filter hook input priority 0; policy accept;
        ip daddr {UNREACHABLE} meta l4proto tcp reject with icmp type port-unreachable
    }}
}}
"""
# Whether a kernel takes data in a SYN is a setting of the machine, which only a namespace may change.
OF_THE_MACHINE = "syn-data-acknowledged"


def loopback_world() -> World:
    """No Fast Open towards servers (kind 34), since the reference forgets the kernel's cookies for it."""
    sources = ("127.0.0.1", "127.0.0.2")
    return World(loopback=(LOOPBACK_ORIGIN,), forbidden=FORBIDDEN, cookies=True, sources=sources, kinds=(4, 8))


def namespace_world() -> World:
    return World(listen=IPV4, forbidden=FORBIDDEN, cookies=True, mptcp=True, sources=(IPV4, OTHER))


def set_up_namespace(sysctls: Iterable[str]) -> None:
    """Addresses on the loopback interface, one that answers with ICMP errors, and Fast Open both ways."""
    addresses = [f"{address}/{length}" for address, length in ((IPV4, 32), (OTHER, 32), (UNREACHABLE, 32), (IPV6, 128))]
    links = ["link set lo up", *(f"address add {address} dev lo" for address in addresses)]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(links), text=True, check=True)
    subprocess.run(["sysctl", "-qw", "net.ipv4.tcp_fastopen=3", *sysctls], check=True)
    subprocess.run(["nft", "-f", "-"], input=REJECT, text=True, check=True)


def settings(world: World, port: int, origins: tuple[str, ...], mutant: Mutant, patience: float) -> Settings:
    """Patient where something must come, and brief where nothing must, or where any check may fail."""
    return Settings(
        converter=(world.listen, port),
        family=AF_INET,
        origins=tuple(map(ip_address, origins)),
        mptcp=world.mptcp,
        cookies=world.cookies,
        forbidden=ip_address(world.forbidden),
        unreachable=Unreachable(ip_address(UNREACHABLE), PORT_UNREACHABLE) if world.mptcp else None,
        sources=tuple(map(ip_address, ("127.0.0.5", "127.0.0.6") if world.loopback else (IPV4, OTHER))),
        timeout=patience * (0.5 if mutant.any_may_fail else 3.0),
        quiet=0.06,
    )


def verdicts(where: str, name: str, only: Collection[str] = (), patience: float = 1.0) -> Verdicts:
    """How each check ends on this converter, or each of ``only``, after ``patience`` times the usual time-out."""
    mutant = BY_NAME[name]
    if where == "namespace":
        leave_network()
        set_up_namespace(mutant.sysctls)
        world, checks = namespace_world(), list(ALL)
    else:
        world = loopback_world()
        checks = [each for each in ALL if each.name != OF_THE_MACHINE]
    checks = [each for each in checks if not only or each.name in only]
    origins = (LOOPBACK_ORIGIN,) if world.loopback else (IPV4, IPV6)
    with mutant.kind(world) as converter:
        chosen = settings(world, converter.port, origins[::-1] if mutant.ipv6_first else origins, mutant, patience)
        results = [run(check, chosen) for check in checks]
    return {each.name: [each.result, each.expected, each.came] for each in results}


def prove(where: str, names: Iterable[str]) -> dict[str, Verdicts]:
    """The verdicts on each of these converters."""
    # Its workers are forked, which a process with threads, as that of tests, must not do.
    command = [sys.executable, "-m", __spec__.name, where, *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=800)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    found: dict[str, Verdicts] = json.loads(ran.stdout)
    return found


def all_verdicts(where: str, names: Sequence[str]) -> dict[str, Verdicts]:
    """The same, in workers of this process.

    A machine may stall for longer than a check waits: one that surprises is run again, when nothing runs beside it, and
    of the reference all are, since one check may be the reason why another fails.
    """
    found = _in_workers(AT_ONCE, {name: (where, name) for name in names})
    surprising = {name: set(again) for name in names if (again := surprises(BY_NAME[name], found[name]))}
    for name, checks in surprising.items():
        only = set() if name == REFERENCE.name else checks
        # One that was to fail by its time-out does so again.
        patience = 1.0 if "passed" in surprises(BY_NAME[name], found[name]).values() else 2.0
        found[name] |= _in_workers(1, {name: (where, name, only, patience)})[name]
    return found


def _in_workers(at_once: int, wanted: Mapping[str, tuple[Any, ...]]) -> dict[str, Verdicts]:
    """What ``verdicts`` gives for each of these arguments; raises RuntimeError with the name that it raised for."""
    found = {}
    with ProcessPoolExecutor(at_once, get_context("fork")) as workers:
        begun = {name: workers.submit(verdicts, *arguments) for name, arguments in wanted.items()}
        for name, each in begun.items():
            try:
                found[name] = each.result()
            except Exception as error:
                raise RuntimeError(f"{name}: {error}") from error
    return found


def surprises(mutant: Mutant, found: Verdicts) -> dict[str, str]:
    """Checks that failed though they should not, or did not though they should; skipped ones prove nothing."""
    ran = {name for name, (result, _, _) in found.items() if result != "skip"}
    failed = {name for name in ran if found[name][0] == "fail"}
    missed = dict.fromkeys(sorted((mutant.fails & ran) - failed), "passed")
    if mutant.any_may_fail:
        return missed
    return missed | {name: f"failed: {found[name][1:]}" for name in sorted(failed - mutant.fails - mutant.may_fail)}


if __name__ == "__main__":
    print(json.dumps(all_verdicts(sys.argv[1], sys.argv[2:])))

"""Runs the suite against the reference converter and the mutants, many at a time.

    python3 -m tests.commands.conformance.proof loopback|namespace NAME

runs it against one, and prints {check: [result, expected, came]}. "loopback" needs nothing; "namespace" changes the
network namespace that it is called in, which has to be a new one: unshare --net python3 -m ...
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_address
from socket import AF_INET

from converter.conformance.checks import ALL
from converter.conformance.rig import Settings, Unreachable
from converter.conformance.suite import run
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
    commands = [["ip", "link", "set", "lo", "up"]]
    commands += [["ip", "address", "add", address, "dev", "lo"] for address in addresses]
    commands += [["sysctl", "-qw", setting] for setting in ("net.ipv4.tcp_fastopen=3", *sysctls)]
    for command in commands:
        subprocess.run(command, check=True)
    subprocess.run(["nft", "-f", "-"], input=REJECT, text=True, check=True)


def settings(world: World, port: int, origins: tuple[str, ...], mutant: Mutant) -> Settings:
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
        timeout=0.5 if mutant.any_may_fail else 3.0,
        quiet=0.06,
    )


def verdicts(where: str, name: str) -> Verdicts:
    """How each check ends on this converter."""
    mutant = BY_NAME[name]
    if where == "namespace":
        set_up_namespace(mutant.sysctls)
        world, checks = namespace_world(), list(ALL)
    else:
        world = loopback_world()
        checks = [each for each in ALL if each.name != OF_THE_MACHINE]
    origins = (LOOPBACK_ORIGIN,) if world.loopback else (IPV4, IPV6)
    with mutant.kind(world) as converter:
        chosen = settings(world, converter.port, origins[::-1] if mutant.ipv6_first else origins, mutant)
        results = [run(check, chosen) for check in checks]
    return {each.name: [each.result, each.expected, each.came] for each in results}


def prove(where: str, names: Iterable[str]) -> dict[str, Verdicts]:
    """The verdicts on each of these converters, each in a process of its own.

    A machine may stall for longer than a check waits, so what surprises is run again, when nothing runs beside it.
    """
    wanted = list(names)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip(wanted, pool.map(lambda name: _in_a_process(where, name), wanted), strict=True))
    again = [name for name in wanted if surprises(BY_NAME[name], found[name])]
    return found | {name: _in_a_process(where, name) for name in again}


def _in_a_process(where: str, name: str) -> Verdicts:
    own_network = ["unshare", "--net"] if where == "namespace" else []
    command = [*own_network, sys.executable, "-m", __spec__.name, where, name]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{name}: {ran.stderr}")
    found: Verdicts = json.loads(ran.stdout)
    return found


def surprises(mutant: Mutant, found: Verdicts) -> list[str]:
    """Checks that failed though they should not, or did not though they should; skipped ones prove nothing."""
    ran = {name for name, (result, _, _) in found.items() if result != "skip"}
    failed = {name for name in ran if found[name][0] == "fail"}
    missed = [f"{name} passed" for name in sorted((mutant.fails & ran) - failed)]
    if mutant.any_may_fail:
        return missed
    return missed + [f"{name} failed: {found[name][1:]}" for name in sorted(failed - mutant.fails - mutant.may_fail)]


if __name__ == "__main__":
    print(json.dumps(verdicts(sys.argv[1], sys.argv[2])))

"""Whether the running kernel has the features that the appliance needs: by trying them, never by its version.

Each capability is a fragment of kernel-config/; each of its probes is a shell script that runs in a network namespace
of its own, which is removed after the script. An available module is loaded by that, as in use.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from doctor.findings import Finding, State, ok
from tributary.kernel.process import TimedOut, run

_TIMEOUT = 60  # seconds; a module that has to be loaded takes one or two, from a slow card of a busy machine many


@dataclass(frozen=True)
class Probe:
    """``script`` ends with 0 where the kernel has ``feature``, of the fragment ``capability``.

    ``without`` is the consequence of a missing feature; ``required`` makes it wrong rather than a note.
    """

    capability: str
    feature: str
    script: str
    without: str
    required: bool = True


_SOCKET = "python3 -c 'import socket; socket.socket(socket.{family}, socket.{kind}, {protocol})'"
_MPTCP = 262  # IPPROTO_MPTCP in linux/in.h


def _socket(family: str, kind: str = "SOCK_STREAM", protocol: int = _MPTCP) -> str:
    return _SOCKET.format(family=family, kind=kind, protocol=protocol)


# Without the module ss(8) shows no MPTCP, and still exits with 0.
_LISTENER_SHOWN = """python3 -c '
import socket, subprocess
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener.listen()
raise SystemExit(not subprocess.run(["ss", "-HlnM"], capture_output=True).stdout)'"""


def _rules(table: str, chain: str, *statements: str) -> str:
    lines = (f"table {table} probe {{", "map probed {", _MAP, "}", "chain probe {", chain, *statements, "}", "}")
    return "nft -f - <<'END'\n" + "\n".join(lines) + "\nEND"


_MAP = "type ipv4_addr . inet_service . ipv4_addr . inet_service : mark"


_optional = partial(Probe, required=False)
PROBES = (
    Probe("mptcp", "Multipath TCP over IPv4", _socket("AF_INET"), "nothing of the appliance works"),
    Probe("mptcp-ipv6", "Multipath TCP over IPv6", _socket("AF_INET6"), "clients have IPv4 alone"),
    Probe(
        "diag", "sockets' state by netlink", _LISTENER_SHOWN, "the throttler does not know sessions older than itself"
    ),
    Probe(
        "nftables",
        "nftables with maps, marks and connection tracking",
        _rules(
            "inet",
            "type filter hook input priority filter; policy drop",
            "meta mark set ip saddr . tcp sport . ip daddr . tcp dport map @probed",
            "ct state established,related accept",
            "tcp flags syn limit rate 10/second accept",
            "fib daddr type local reject",
        ),
        "no throttler, no guard, no firewall",
    ),
    Probe(
        "nftables",
        "nftables' reset of a TCP option",
        _rules("inet", "type filter hook postrouting priority mangle", "tcp flags syn reset tcp option mptcp"),
        "Squid's servers see MP_CAPABLE",
    ),
    Probe(
        "interception",
        "transparent proxying",
        _rules(
            "inet",
            "type filter hook prerouting priority mangle",
            "socket transparent 1 meta mark set 1 accept",
            "meta nfproto ipv4 tcp dport 80 tproxy ip to :3130 meta mark set 1",
        ),
        "a LAN needs a proxy setting in each device",
    ),
    Probe(
        "interception",
        "masquerading",
        _rules("ip", "type nat hook postrouting priority srcnat", "masquerade"),
        "a LAN has no way out beside the converter",
    ),
    Probe(
        "routing",
        "routing by source address",
        "ip rule add from 192.0.2.1 lookup 100 && ip -6 rule add from 2001:db8::1 lookup 100",
        "every subflow leaves by the same link",
    ),
    Probe(
        "htb",
        "HTB",
        "tc qdisc add dev lo root handle 1: htb && tc class add dev lo parent 1: classid 1:1 htb rate 1mbit",
        "the throttler cannot throttle",
    ),
    _optional("htb", "fq_codel", "tc qdisc add dev lo root fq_codel", "held classes have a short tbf queue instead"),
    _optional(
        "htb", "tbf", "tc qdisc add dev lo root tbf rate 1mbit burst 3028 limit 15140", "held classes need fq_codel"
    ),
    _optional(
        "cake",
        "CAKE",
        "tc qdisc add dev lo root cake bandwidth 1mbit",
        "a home router keeps links' queues short by fq_codel or tbf",
    ),
    _optional(
        "uploads",
        "IFB device with nftables' fwd to it",
        "ip link add name up0 type ifb && ip link set up0 up && "
        + _rules("netdev", 'type filter hook ingress device "lo" priority 0', 'fwd to "up0"'),
        "the throttler holds downloads alone",
    ),
    *(
        _optional(
            "classifiers",
            name,
            f"tc qdisc add dev lo root handle 1: htb && tc filter add dev lo parent 1: protocol ip prio 1 {words}",
            without,
        )
        for name, words, without in (
            ("cls_fw", "handle 1 fw classid 1:1", "nothing of Tributary needs it"),
            ("cls_u32", "u32 match u32 0 0 classid 1:1", "a home router shapes no link's downloads"),
            ("cls_bpf", "bpf bytecode '1,6 0 0 4294967295' classid 1:1", "nothing of Tributary needs it"),
        )
    ),
    _optional("bpf", "packet sockets", _socket("AF_PACKET", "SOCK_RAW", 0), "the throttler cannot sniff"),
    _optional(
        "bpf", "eBPF programs", "test -e /proc/sys/kernel/unprivileged_bpf_disabled", "acceleration does without"
    ),
    _optional(
        "congestion",
        "cubic for this host's namespaces",
        "sysctl -qw net.ipv4.tcp_congestion_control=cubic",
        "subflows in namespaces take Reno",
    ),
    _optional(
        "testbed",
        "links between namespaces",
        "ip link add name one type veth peer name other && ip link add name br type bridge",
        "no testbed, no demo, no experiments",
    ),
    _optional("testbed", "netem", "tc qdisc add dev lo root netem delay 1ms", "the testbed emulates its links itself"),
)


def examine(probes: Iterable[Probe] = PROBES) -> list[Finding]:
    """Try each of ``probes``, which takes root and, in a container, CAP_SYS_ADMIN."""
    if not works("true"):
        advice = "examine the machine itself, or give this container CAP_SYS_ADMIN"
        return [Finding("kernel", State.UNKNOWN, "cannot make a network namespace here", advice=advice)]
    return [_finding(probe, works(probe.script)) for probe in probes]


def works(script: str) -> bool | None:
    """Whether ``script`` ends with 0 in a network namespace of its own; None: it did not end in time."""
    try:
        return run(["unshare", "--net", "sh", "-c", script], timeout=_TIMEOUT).returncode == 0
    except TimedOut:
        return None


def _finding(probe: Probe, there: bool | None) -> Finding:
    check = f"kernel, {probe.capability}"
    if there:
        return ok(check, probe.feature)
    if there is None:
        advice = "examine it again when the machine is less busy; a kernel that hangs says so in dmesg"
        return Finding(check, State.UNKNOWN, f"{probe.feature}: trying it took over {_TIMEOUT:g} s", advice=advice)
    advice = (
        "install Debian's kernel (linux-image-amd64 or linux-image-arm64),"
        f" or build one with kernel-config/{probe.capability}.config"
    )
    state = State.WRONG if probe.required else State.NOTE
    return Finding(check, state, f"no {probe.feature}: {probe.without}", advice=advice)

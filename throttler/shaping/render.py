"""Topologies and plans as text: lines for ``tc -batch -`` and scripts for ``nft -f -``.

nftables finds a packet of a throttled subflow in a map by its 4-tuple and gives it a mark, and by the mark a priority,
which names an HTB class (tc-htb(8), CLASSIFICATION); no tc filter is needed. Downloads are matched where they leave
(postrouting), uploads where they come in; those are redirected to an IFB device. All other packets pass unshaped,
unless their link has a rate.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from throttler.policy.model import CLASSES
from throttler.policy.values import Direction, SharedBy
from throttler.shaping.plan import ELEMENTS, Element, HtbClass, Plan
from throttler.shaping.topology import UPLOAD_DEVICE, Link, Topology, device
from tributary.kernel import nft

HANDLE = "5452:"
"""Of the root qdisc: 'TR' in ASCII, read as hexadecimal by tc."""
MARK = 0x5452_0000
TABLES = {Direction.DOWNLOAD: "inet throttler", Direction.UPLOAD: "netdev throttler"}
_DRAIN_RATE = 10**11
"""Bits per second of a class that has no elements any more, so that its queue drains at once."""


class Leaf(Enum):
    """The queue inside a class: fq_codel keeps it short; tbf stands in where the kernel has no fq_codel."""

    FQ_CODEL = "fq_codel"
    TBF = "tbf"


@dataclass(frozen=True)
class Kernel:
    """What the text depends on: the leaf qdisc that the kernel supports, and a full frame on each interface in
    bytes.
    """

    leaf: Leaf = Leaf.FQ_CODEL
    frames: Mapping[str, int] = field(default_factory=dict)

    def frame(self, interface: str) -> int:
        """Bytes of a full frame on ``interface``."""
        return self.frames.get(interface, 1514)


def map_name(subflow_is_ipv6: bool, direction: Direction) -> str:
    """The nft map of such subflows."""
    return f"{direction}{6 if subflow_is_ipv6 else 4}"


def class_id(minor: int) -> str:
    """A class as tc writes it: both halves hexadecimal."""
    return f"{HANDLE}{minor:x}"


# Installed while the throttler runs


def roots(before: Topology, after: Topology) -> str:
    """tc lines that put an HTB without limits at the root of each new device."""
    known = {link.device for link in before.links}
    new = {link.device: link for link in after.links if link.device not in known}
    defaults = {name: "0" if name == UPLOAD_DEVICE else f"{link.default_class:x}" for name, link in new.items()}
    return "".join(
        f"qdisc add dev {name} root handle {HANDLE} htb default {minor}\n" for name, minor in defaults.items()
    )


def no_root(name: str) -> str:
    """The tc line that restores a device's default qdisc."""
    return f"qdisc del dev {name} root handle {HANDLE}\n"


def root_classes(before: Topology, after: Topology, kernel: Kernel) -> str:
    """tc lines for root classes and default classes."""
    old = {(link.interface, link.direction): link for link in before.links}
    return "".join(_root_class(old.get((link.interface, link.direction)), link, kernel) for link in after.links)


def _root_class(old: Link | None, new: Link, kernel: Kernel) -> str:
    if old == new:
        return ""
    frame = kernel.frame(new.interface)
    where = f"dev {new.device} parent {HANDLE} classid {class_id(new.root_class)}"
    lines = f"class {'change' if old else 'add'} {where} htb {_htb(new.root_rate, new.root_rate, frame)}\n"
    had_default, has_default = bool(old and old.rate), bool(new.rate)
    where = f"dev {new.device} parent {class_id(new.root_class)} classid {class_id(new.default_class)}"
    if has_default:
        verb = "change" if had_default else "add"
        lines += f"class {verb} {where} htb {_htb(new.default_rate, new.root_rate, frame)} prio 3\n"
    if has_default and not had_default and kernel.leaf is Leaf.FQ_CODEL:
        lines += f"qdisc add dev {new.device} parent {class_id(new.default_class)} fq_codel\n"
    if had_default and not has_default:
        lines += f"class del {where}\n"
    return lines


def tables(before: Topology, after: Topology) -> str:
    """The nft script, one transaction, that creates the tables with empty maps, or updates them."""
    return "".join(
        _table(direction, direction in before.tables, before, after)
        for direction in Direction
        if direction in after.tables
    )


def _table(direction: Direction, is_there: bool, before: Topology, after: Topology) -> str:
    text = "" if is_there else f"table {TABLES[direction]} {{\n{_maps(direction)}{_postrouting(direction)}}}\n"
    new_dscp_values = after.dscp_values - before.dscp_values if is_there else after.dscp_values
    text += "".join(_code_chain(TABLES[direction], code) for code in sorted(new_dscp_values))
    if direction is Direction.UPLOAD:
        there = (link for link in after.links if link.direction is direction and link.is_there)
        text += "".join(_ingress(link) for link in there if link not in before.links)
    return text


def _maps(direction: Direction) -> str:
    keys = [
        (map_name(ipv6, direction), f"{ip} saddr . tcp sport . {ip} daddr . tcp dport : meta mark", ELEMENTS)
        for ipv6, ip in ((False, "ip"), (True, "ip6"))
    ]
    keys.append(("classes", "meta mark : meta priority", CLASSES + 256))
    text = "".join(
        f"    map {name} {{\n        typeof {key}\n        size {size}\n    }}\n" for name, key, size in keys
    )
    return text + f"    map codes {{\n        type mark : verdict\n        size {CLASSES}\n    }}\n"


def _lookup(direction: Direction) -> str:
    return "".join(
        f"        meta mark set {ip} saddr . tcp sport . {ip} daddr . tcp dport map @{direction}{version}\n"
        for ip, version in (("ip", 4), ("ip6", 6))
    )


def _postrouting(direction: Direction) -> str:
    if direction is Direction.UPLOAD:
        return ""
    # After srcnat, so that the maps meet the addresses that are on the wire, as the sniffer does: the source of a
    # redirected connection's answers is put back there. A mark that an upload brought along has done its work.
    return (
        "    chain uploaded {\n"
        "        type filter hook prerouting priority raw - 10; policy accept;\n"
        f"        meta mark & 0xffff0000 == {MARK:#x} meta mark set 0\n"
        "    }\n"
        "    chain throttle {\n"
        "        type filter hook postrouting priority srcnat + 10; policy accept;\n"
        f"{_lookup(direction)}"
        "        meta priority set meta mark map @classes\n"
        "        meta mark vmap @codes\n"
        "    }\n"
    )


def _code_chain(table: str, code: int) -> str:
    chain = f"{table} dscp-{code}"
    return f"add chain {chain}\nadd rule {chain} ip dscp set {code}\nadd rule {chain} ip6 dscp set {code}\n"


def _ingress(link: Link) -> str:
    table = TABLES[Direction.UPLOAD]
    chain = f"in-{link.number}"
    rest = (
        f"        meta protocol {{ ip, ip6 }} meta priority set {class_id(link.default_class)} fwd to {UPLOAD_DEVICE}\n"
    )
    return (
        f"table {table} {{\n    chain {chain} {{\n"
        f'        type filter hook ingress device "{link.interface}" priority filter; policy accept;\n'
        f"    }}\n}}\nflush chain {table} {chain}\ntable {table} {{\n    chain {chain} {{\n"
        f"{_lookup(Direction.UPLOAD)}"
        "        meta mark vmap @codes\n"
        f'        meta priority set meta mark map @classes fwd to "{UPLOAD_DEVICE}"\n'
        f"{rest if link.rate else ''}"
        "    }\n}\n"
    )


def no_tables() -> str:
    """The nft script that removes both tables; missing ones are no error."""
    return "".join(map(nft.delete, TABLES.values()))


# One step


def before_elements(plan: Plan, topology: Topology, kernel: Kernel) -> str:
    """tc lines for the classes that ``plan`` opens and changes, applied before the elements."""
    steps = (("add", plan.open), ("change", plan.change))
    return "".join(
        _class(verb, htb, topology, _parameters(htb, kernel)) + _leaf(verb, htb, kernel)
        for verb, classes in steps
        for htb in classes
    )


def after_elements(plan: Plan, topology: Topology, kernel: Kernel) -> str:
    """tc lines for the classes that ``plan`` drains and closes, except those whose device is gone."""
    return "".join(
        (
            *(_drain(htb, topology, kernel) for htb in plan.drain if _device(htb) in topology.devices),
            *(f"class del dev {_device(htb)} classid {class_id(htb.minor)}\n" for htb in plan.close),
        )
    )


def elements(plan: Plan) -> str:
    """The nft script, one transaction, that removes and adds the map elements of ``plan``."""
    lines: list[str] = []
    for direction in Direction:
        drained = [htb for htb in plan.drain if htb.key.direction is direction]
        opened = [htb for htb in plan.open if htb.key.direction is direction]
        # Removals first: a subflow that changes its class is in both lists.
        lines += _subflows("delete", direction, plan.remove)
        lines += _batch("delete", direction, "classes", (_mark(one.minor) for one in drained))
        lines += _batch("delete", direction, "codes", (_mark(one.minor) for one in drained if _writes_code(one)))
        lines += _batch("add", direction, "classes", (f"{_mark(one.minor)} : {class_id(one.minor)}" for one in opened))
        lines += _batch("add", direction, "codes", (_code(one) for one in opened if _writes_code(one)))
        lines += _subflows("add", direction, plan.add)
    return "".join(lines)


def _subflows(verb: str, direction: Direction, elements: Iterable[Element]) -> Iterable[str]:
    for ipv6 in (False, True):
        chosen = (one for one in elements if one.direction is direction and one.subflow.is_ipv6 is ipv6)
        texts = (f"{_key(one)} : {_mark(one.htb.minor)}" if verb == "add" else _key(one) for one in chosen)
        yield from _batch(verb, direction, map_name(ipv6, direction), texts)


def _batch(verb: str, direction: Direction, name: str, texts: Iterable[str]) -> Iterable[str]:
    inside = ", ".join(texts)
    return (f"{verb} element {TABLES[direction]} {name} {{ {inside} }}\n",) if inside else ()


def _key(element: Element) -> str:
    name = element.subflow
    local, remote = f"{name.local} . {name.local_port}", f"{name.remote} . {name.remote_port}"
    return f"{local} . {remote}" if element.direction is Direction.DOWNLOAD else f"{remote} . {local}"


def _mark(minor: int) -> str:
    return f"{MARK | minor:#x}"


def _code(htb: HtbClass) -> str:
    return f"{_mark(htb.minor)} : jump dscp-{htb.key.dscp}"


def _writes_code(htb: HtbClass) -> bool:
    return htb.key.dscp is not None


def _device(htb: HtbClass) -> str:
    return device(htb.key.interface, htb.key.direction)


def _class(verb: str, htb: HtbClass, topology: Topology, rest: str) -> str:
    link = topology.link(htb.key.interface, htb.key.direction)
    return (
        f"class {verb} dev {link.device} parent {class_id(link.root_class)} classid {class_id(htb.minor)} htb {rest}\n"
    )


def _drain(htb: HtbClass, topology: Topology, kernel: Kernel) -> str:
    frame = kernel.frame(htb.key.interface)
    return _class("change", htb, topology, _htb(_DRAIN_RATE, _DRAIN_RATE, frame))


def _parameters(htb: HtbClass, kernel: Kernel) -> str:
    rates = htb.rates
    return f"{_htb(rates.rate, rates.ceiling, kernel.frame(htb.key.interface))} prio {rates.priority}"


def _htb(rate: int, ceiling: int, frame: int) -> str:
    # iproute2 before 6.14 rounds its own burst badly. The quantum shares out what classes borrow.
    bursts = [max(10 * frame, _bytes_in(speed, 1)) for speed in (rate, ceiling)]
    quantum = min(max(rate // 8 // 100, frame), 60_000)
    return f"rate {rate}bit ceil {ceiling}bit burst {bursts[0]}b cburst {bursts[1]}b quantum {quantum}"


def _leaf(verb: str, htb: HtbClass, kernel: Kernel) -> str:
    """A queue so short that the subflow loses packets before it has more than about 12 ms of them queued.

    A long one is worse than no throttle: TCP small queues hold back a local sender before it fills the queue, so it
    loses nothing, keeps the congestion window of the unthrottled path, and MPTCP's scheduler, which goes by window and
    round-trip time, goes on choosing the slow subflow.
    """
    where = f"qdisc {verb} dev {_device(htb)} parent {class_id(htb.minor)}"
    frame, rate = kernel.frame(htb.key.interface), htb.rates.ceiling
    if kernel.leaf is Leaf.TBF:
        # A short limit would drop what segmentation offload has put together as one; tbf cuts into frames first. Its
        # own rate never delays a frame (HTB complains in the kernel log if it does): the class sets the pace.
        limit = max(5 * frame, _bytes_in(rate, 10))
        return f"{where} tbf rate {max(10**11, 10 * rate)}bit burst {2 * frame}b limit {limit}b\n"
    # RFC 8290 wants TARGET not below the time that one frame takes; its default is 5 ms.
    target = max(5000, 2 * frame * 8 * 10**6 // rate)
    # Memory: 64 bytes for each flow queue (net/sched/sch_fq_codel.c), and a subflow is only one. The
    # number cannot be changed later.
    flows = f"flows {_FLOWS[htb.key.owner.shared_by]} " if verb == "add" else ""
    return f"{where} fq_codel {flows}target {target}us\n"


_FLOWS = {SharedBy.SUBFLOW: 1, SharedBy.SESSION: 8, SharedBy.CLIENT: 64, SharedBy.RULE: 1024}


def _bytes_in(rate: int, milliseconds: int) -> int:
    return rate * milliseconds // 8000

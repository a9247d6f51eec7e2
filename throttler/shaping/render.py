"""Plans as text: lines for ``tc -batch -`` and scripts for ``nft -f -``.

A packet of a held subflow is found in an nft map by its 4-tuple, gets a mark, and by the mark a priority, which names
an HTB class (tc-htb(8), CLASSIFICATION); no tc filter is needed. All other packets pass HTB unshaped (default 0).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from settings.units import PositiveRate
from throttler.shaping.plan import CAPACITY, Placed, Plan

HANDLE = "5452:"
"""Of the root qdisc: 'TR' in ASCII, read as hexadecimal by tc."""
MARK = 0x5452_0000
TABLE = "inet throttler"


class Leaf(Enum):
    """The queue inside a class: fq_codel keeps it short; tbf stands in where the kernel has no fq_codel."""

    FQ_CODEL = "fq_codel"
    TBF = "tbf"


@dataclass(frozen=True)
class Link:
    """What a class depends on: the leaves that the kernel has, and a full frame on this interface in bytes."""

    leaf: Leaf = Leaf.FQ_CODEL
    frame: int = 1514


def _bytes_in(rate: PositiveRate, milliseconds: int) -> int:
    return rate.amount * milliseconds // 8000


def _leaf(link: Link, rate: PositiveRate) -> str:
    """A queue so short that the subflow loses packets before it has more than about 12 ms of them queued.

    A long one is worse than no throttle: TCP small queues hold back a local sender before it fills the queue, so it
    loses nothing, keeps the congestion window of the unthrottled path, and MPTCP's scheduler, which goes by window and
    round-trip time, goes on choosing the slow subflow.
    """
    if link.leaf is Leaf.TBF:
        # A short limit would drop what segmentation offload has put together as one; tbf cuts into frames first. Its
        # own rate never holds a frame back (HTB complains in the kernel log if it does): the class sets the pace.
        limit = max(5 * link.frame, _bytes_in(rate, 10))
        return f"tbf rate {max(10**11, 10 * rate.amount)}bit burst {2 * link.frame}b limit {limit}b"
    # RFC 8290 wants TARGET not below the time that one frame takes; its default is 5 ms.
    return f"fq_codel target {max(5000, 2 * link.frame * 8 * 10**6 // rate.amount)}us"


def roots(interfaces: Iterable[str]) -> str:
    """tc lines that put an HTB that lets everything pass at each interface's root."""
    return "".join(f"qdisc add dev {interface} root handle {HANDLE} htb default 0\n" for interface in interfaces)


def no_roots(interfaces: Iterable[str]) -> str:
    """tc lines that give each interface its default qdisc back."""
    return "".join(f"qdisc del dev {interface} root handle {HANDLE}\n" for interface in interfaces)


def table() -> str:
    """The nft script that makes the table with empty maps."""
    maps = "".join(
        f"    map {name} {{\n        typeof {key}\n        size {CAPACITY}\n    }}\n"
        for name, key in (
            ("subflows4", "ip saddr . tcp sport . ip daddr . tcp dport : meta mark"),
            ("subflows6", "ip6 saddr . tcp sport . ip6 daddr . tcp dport : meta mark"),
            ("classes", "meta mark : meta priority"),
        )
    )
    # After srcnat, so that the maps meet the addresses that are on the wire, as the sniffer does: the source of a
    # redirected connection's answers is put back there.
    return (
        f"table {TABLE} {{\n{maps}"
        "    chain hold {\n"
        "        type filter hook postrouting priority srcnat + 10; policy accept;\n"
        "        meta mark set ip saddr . tcp sport . ip daddr . tcp dport map @subflows4\n"
        "        meta mark set ip6 saddr . tcp sport . ip6 daddr . tcp dport map @subflows6\n"
        "        meta priority set meta mark map @classes\n"
        "    }\n}\n"
    )


def no_table() -> str:
    """The nft script that removes the table; that it is not there is no error."""
    return f"table {TABLE}\ndelete table {TABLE}\n"


def classes(plan: Plan, links: Mapping[str, Link]) -> str:
    """tc lines for the classes that ``plan`` adds, with the link of each interface: they come before the elements."""
    return "".join(_class(placed, links[placed.hold.interface]) for placed in plan.add)


def _class(placed: Placed, link: Link) -> str:
    rate, where = placed.hold.rate, f"dev {placed.hold.interface} parent"
    # iproute2 before 6.14 rounds its own burst badly. The quantum matters only between classes that borrow: none do.
    burst = max(10 * link.frame, _bytes_in(rate, 1))
    return (
        f"class add {where} {HANDLE} classid {class_id(placed.minor)} htb rate {rate.amount}bit ceil {rate.amount}bit"
        f" burst {burst}b cburst {burst}b quantum {link.frame}\n"
        f"qdisc add {where} {class_id(placed.minor)} {_leaf(link, rate)}\n"
    )


def no_classes(plan: Plan) -> str:
    """tc lines that remove the classes that ``plan`` removes: they come after the elements."""
    return "".join(
        f"class del dev {placed.hold.interface} classid {class_id(placed.minor)}\n" for placed in plan.remove
    )


def elements(plan: Plan) -> str:
    """The nft script, one transaction, that takes out and puts in the map elements of ``plan``."""
    # Out first: a subflow that changes its class is in both lists.
    gone = (line for placed in plan.remove for line in _element("delete", placed))
    new = (line for placed in plan.add for line in _element("add", placed))
    return "".join((*gone, *new))


def _element(verb: str, placed: Placed) -> tuple[str, str]:
    name = placed.hold.subflow
    key = f"{name.local} . {name.local_port} . {name.remote} . {name.remote_port}"
    subflows = "subflows6" if name.is_ipv6 else "subflows4"
    mark = f"{MARK | placed.minor:#x}"
    value, target = (f" : {mark}", f" : {class_id(placed.minor)}") if verb == "add" else ("", "")
    lines = (
        f"{verb} element {TABLE} classes {{ {mark}{target} }}\n",
        f"{verb} element {TABLE} {subflows} {{ {key}{value} }}\n",
    )
    return lines if verb == "add" else (lines[1], lines[0])


def class_id(minor: int) -> str:
    """A class as tc writes it: both halves hexadecimal."""
    return f"{HANDLE}{minor:x}"

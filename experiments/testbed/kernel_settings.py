"""The appliance's kernel settings (kernel-config/), given to a node."""

from experiments.testbed.node import Node
from tributary.paths import ROOT

_ALWAYS = ROOT / "kernel-config/90-tributary.conf"
_TOGETHER = ROOT / "kernel-config/retransmissions.conf"
_SCRIPT = """
sysctl -e -q -p "$1"
! [ -e /proc/sys/net/ipv4/tcp_rto_max_ms ] || sysctl -q -p "$2"
"""


def apply(node: Node) -> None:
    """Set them as far as the node's kernel has them, as tributary-common does."""
    node.run("sh", "-ec", _SCRIPT, "sysctl", str(node.there(_ALWAYS)), str(node.there(_TOGETHER)))

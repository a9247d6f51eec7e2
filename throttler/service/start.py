"""From the options of ``throttler run`` to a running daemon."""

from contextlib import ExitStack

from throttler.policy.model import Policy
from throttler.service.daemon import Daemon, Options
from throttler.shaping.backend import require_tools
from throttler.sources.kernel import KernelEvents
from throttler.sources.source import Source, SourceKind
from tributary.mptcp import sockets
from tributary.mptcp.path_manager import PathManager


def run(policy: Policy, source: str, options: Options) -> None:
    """Throttle by ``source``, a SourceKind or "auto", until a stop signal; raises CommandError before any change if it
    cannot start.
    """
    kind = choose() if source == "auto" else SourceKind(source)
    require_tools()
    with ExitStack() as stack:
        Daemon(policy, options, lambda: open_source(kind), stack).run()


def choose() -> SourceKind:
    """The kernel's events if MPTCP sessions end on this host, else the sniffer."""
    return SourceKind.KERNEL if PathManager.is_available() and sockets.terminates_mptcp() else SourceKind.SNIFFER


def open_source(kind: SourceKind) -> Source:
    """The source of that kind; raises CommandError, exit 69 or 71."""
    if kind is SourceKind.KERNEL:
        return KernelEvents()
    # Loading Scapy takes three quarters of a start, and 40 MB.
    from throttler.sources.packet_source import PacketSource

    return PacketSource()

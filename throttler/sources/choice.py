"""Which source a throttler has."""

from throttler.sources.kernel import KernelEvents
from throttler.sources.source import Source, Which
from tributary.mptcp import sockets
from tributary.mptcp.path_manager import PathManager


def choose() -> Which:
    """The source that fits this host: the kernel's own events where MPTCP sessions end here, else the sniffer."""
    return Which.KERNEL if PathManager.is_available() and sockets.terminates_mptcp() else Which.SNIFFER


def open_source(which: Which) -> Source:
    """The source of that kind; raises CommandError, exit 69 or 71."""
    if which is Which.KERNEL:
        return KernelEvents()
    # Loading Scapy takes three quarters of a start, and 40 MB.
    from throttler.sources.wire import Wire

    return Wire()

"""Whether this network namespace forwards packets: reads and sets it, for both IP versions."""

from collections.abc import Sequence

from tributary.kernel import sysctl

_FORWARDING = {4: "net/ipv4/ip_forward", 6: "net/ipv6/conf/all/forwarding"}


def forwards(version: int = 4) -> bool:
    """Whether packets of this IP version are forwarded; False for a version that the kernel lacks."""
    return sysctl.read(_FORWARDING[version]) == "1"


def forward(on: bool) -> None:
    """Switch IPv4 forwarding on or off; raises CommandError, exit 71."""
    sysctl.write(_FORWARDING[4], int(on))


def ra_accepting_interfaces() -> list[str]:
    """The interfaces that accept default routes from router advertisements only while forwarding is off."""
    names = (each.parent.name for each in (sysctl.ROOT / "net/ipv6/conf").glob("*/accept_ra"))
    # One may go meanwhile, as a container's do.
    return sorted(name for name in names if name != "all" and sysctl.read(f"net/ipv6/conf/{name}/accept_ra") == "1")


def forward6(on: bool, hearing: Sequence[str]) -> None:
    """The same for IPv6; the interfaces ``hearing`` go on accepting advertisements (ip-sysctl.rst, accept_ra).

    Raises CommandError, exit 71.
    """
    before, after = (1, 2) if on else (2, 1)
    hears = [f"net/ipv6/conf/{name}/accept_ra" for name in hearing]
    # Another value is somebody's choice, and an interface may have gone.
    values = [(name, after) for name in hears if sysctl.number(name) == before]
    # The kernel forgets routes from advertisements that are not accepted at that moment.
    for name, value in [*values, (_FORWARDING[6], 1)] if on else [(_FORWARDING[6], 0), *values]:
        sysctl.write(name, value)

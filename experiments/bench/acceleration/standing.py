"""How long connections take to stand through a transparent listener with early SYN forwarding."""

from collections.abc import Callable, Sequence

from experiments.scenarios.acceleration_setup import setup_times, transparent
from experiments.study.figures import Series
from experiments.testbed.cables import CLIENT_SIDE, Cabling
from experiments.testbed.chain import intercept


def set_up(
    cabling: Cabling, at_once: Sequence[int], repetitions: int, say: Callable[[str], None]
) -> tuple[list[Series], dict[str, float]]:
    """Medians, from connect(2) until the server's first byte is there, through one converter on plain cables.

    ``setup_ms_N``: of connections one after the other while N others stand. ``setup_at_once_ms_N``: of N that begin in
    the same moment; the last one waits for the processor's work on all.
    """
    series = []
    intercept(cabling.testbed.gateway, CLIENT_SIDE)
    with transparent(cabling):
        for connections in at_once:
            taken = [setup_times(cabling, connections) for _ in range(repetitions)]
            series += [
                Series(f"setup_ms_{connections}", "ms", tuple(each["beside_ms"] for each in taken)),
                Series(f"setup_at_once_ms_{connections}", "ms", tuple(each["at_once_ms"] for each in taken)),
            ]
            say(", ".join(f"{each.name} {each.median:.2f}" for each in series[-2:]))
    return series, {each.name: each.median for each in series}

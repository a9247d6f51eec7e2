"""How long connections take to stand through a transparent listener with early SYN forwarding."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from experiments.bench.converter.ground import CLIENT_SIDE, CLIENTS, ORIGIN, Ground
from experiments.bench.result import Series
from experiments.testbed.chain import PORT, intercept

_SETTINGS = """\
[clients]
networks = ["{clients}"]
[limits]
connections_per_client = 20000
[early_syn]
connections = 8000
per_client = 8000
per_server = 8000
[control]
socket = "{directory}/standing.sock"
[[listen]]
kind = "transparent"
address = "[::]:{port}"
intercept = "tproxy"
early_syn = true
"""


def set_up(
    ground: Ground, at_once: Sequence[int], repetitions: int, say: Callable[[str], None]
) -> tuple[list[Series], dict[str, float]]:
    """Medians, from connect(2) until the server's first byte is there, through one converter on plain cables.

    ``setup_ms_N``: of connections one after the other while N others stand. ``setup_at_once_ms_N``: of N that begin in
    the same moment; the last one waits for the processor's work on all.
    """
    series = []
    with _transparent(ground):
        for connections in at_once:
            beside, together = [], []
            for _ in range(repetitions):
                told = ground.load("setup", "--to", ORIGIN, "--connections", str(connections))
                beside.append(told["beside"]["answered"]["p50_us"] / 1000)
                together.append(told["at_once"]["answered"]["p50_us"] / 1000)
            series += [
                Series(f"setup_ms_{connections}", "ms", tuple(beside)),
                Series(f"setup_at_once_ms_{connections}", "ms", tuple(together)),
            ]
            say(", ".join(f"{each.name} {each.median:.2f}" for each in series[-2:]))
    return series, {each.name: each.median for each in series}


@contextmanager
def _transparent(ground: Ground) -> Iterator[None]:
    """A converter at the gateway that takes over what the client sends to the origin, for the length of the block."""
    gateway, directory = ground.testbed.gateway, ground.testbed.directory
    settings = directory / "standing.toml"
    settings.write_text(_SETTINGS.format(clients=CLIENTS, directory=directory, port=PORT))
    intercept(gateway, CLIENT_SIDE)
    with gateway.start("standing", [str(ground.programs.converter), "--config", str(settings)]).wait_until_ready():
        yield

"""What the sweeps over one quantity have in common: downloads of equal length, and a value plotted over it."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from pydantic import Field

from experiments.plots import line
from experiments.record import Download
from experiments.scenarios.downloads import fetched, file_lasting, reading_of, values_of
from experiments.study.experiment import Experiment, Seconds
from experiments.study.readings import Point, Reading, Readings
from experiments.testbed.appliance import bound_receive_buffer
from experiments.testbed.build import Testbed
from experiments.testbed.usage import counted
from tributary.settings.units import Size

RECEIVE_BUFFER = {"receive-buffer": "buffer", "net.ipv4.tcp_rmem": "buffer"}
"""``own_axes`` of experiments that bound what the client receives by their option ``buffer``."""
NO_MARK = 4294967295
"""The kernel's own tcp_notsent_lowat."""
_STYLES = {"squid": ("#555555", "s", "--"), "native": ("black", "o", "-"), "legacy": ("#D55E00", "^", ":")}


class TimedExperiment(Experiment):
    """Every download breaks off after ``seconds``; its rates count from ``warm_up`` seconds on."""

    seconds: Seconds = 6.0
    warm_up: float = Field(default=2.0, ge=0, description="a number of seconds")

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """A download, and what the kernels counted meanwhile, of MPTCP's segments and of TCP's."""
        with counted(testbed.client) as at_client, counted(testbed.gateway) as at_gateway:
            download = self.download(testbed, point, repetition)
            client, gateway = at_client(), at_gateway()
        counts = {
            "segments_that_waited": float(client["MPTcpExtOFOQueue"]),
            "segments_twice": float(client["MPTcpExtDuplicateData"]),
            "segments_sent_again": float(gateway["MPTcpExtMPTCPRetrans"]),
            "tcp_retransmits": float(gateway["TcpRetransSegs"]),
        }
        return reading_of(download, point, repetition, values_of(download, self.warm_up) | counts)

    def download(self, testbed: Testbed, point: Point, repetition: int) -> Download:
        """What comes in ``seconds`` of a file that lasts longer."""
        file = file_lasting(testbed.topology, self.seconds, seed=repetition)
        return fetched(testbed, point, file, self.seconds)


def megabytes(size: str) -> float:
    """What a point calls ``size``, as a number."""
    return Size.parse(size).amount / 1e6


def bound_what_is_received(testbed: Testbed, most: Size) -> None:
    """Let the client take ``most``, and the gateway send as a kernel by itself does, the papers' among them.

    With the appliance's low mark for unsent bytes (tcp_notsent_lowat) a slow path is given less at a time, and MPTCP
    does with a smaller buffer.
    """
    bound_receive_buffer(testbed, most.amount)
    testbed.gateway.sysctl(net__ipv4__tcp_notsent_lowat=NO_MARK)


def draw_sweep(
    axes: Axes, over: Mapping[float, Readings], value: str, by: str, scale: float = 1, about: str = ""
) -> None:
    """``value`` times ``scale`` as ``by`` has it, with its interval, ``over`` a quantity.

    A line with something to say ``about`` it is pale.
    """
    colour, marker, how = _STYLES[by]
    found = {place: readings.at(by=by).estimate(value).scaled(scale) for place, readings in over.items()}
    style = {"color": colour, "marker": marker, "linestyle": how, "alpha": 0.4 if about else 1}
    line(axes, found, f"{by}{about}", **style)

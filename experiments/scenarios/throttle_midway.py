"""An operator throttles a path in the middle of a download.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s once half of the file has come
           ==wireless===                       6 Mbit/s

Derived: each path's rate on the wire before the operator's command and behind it. Expected: the held path falls to its
rate at once, the connection does not break, and new data goes by the other path: Linux gives it to the subflow that
will have sent all it has soonest, by its pacing rate (mptcp_subflow_get_send() in net/mptcp/protocol.c).

What the held path had been given before stays with it, and goes out at the held rate; data behind it waits in the
client. So the client's receive buffer is the paper's 0.72 MB here, which bounds that backlog, and the other link does
not fill before it is out. With the appliance's 32 MB all of the second half was in the gateway's send buffers when the
hold came: 1.3 MB on the held path, unsent (ss -tinM), which took ten seconds, and the other link carried 0.5 Mbit/s
meanwhile instead of 1.9.
"""

from experiments.scenarios.throttling import HELD, MIDWAY, HeldDownload
from experiments.study.readings import Readings, Verdict, at_least

_TIMES = 2.0  # the rate that it is held to


class ThrottleMidway(HeldDownload):
    """An operator holds."""

    claim = "A throttle that an operator sets in the middle of a download moves the load and breaks nothing."
    expected = "The held path falls to its rate within a third of a second, and the other one carries more."
    quick = {"repeat": 1, "size": "12MB"}
    held, title, moments = MIDWAY, "held midway", (HELD,)

    def on_first_path(self, path: str, readings: Readings, who: str) -> Verdict:
        before, bound = readings.estimate(f"{path}_before_mbps"), _TIMES * self.rate.amount / 1e6
        return at_least(f"{path} carried far more before ({who})", before, bound, "Mbit/s")

"""A first download of 5 MB, which the throttler holds by itself once the second subflow has joined.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s from the other subflow's join on
           ==wireless===                       6 Mbit/s

Derived: how long it takes from the join (its third ACK as it arrives at the gateway) to the hold (the first packet with
the throttler's mark as it leaves), by the kernel's packet timestamps; each path's rate on the wire from then on.
Expected: a few milliseconds, since the kernel tells of the join and a class and a map's element are all that is
installed. The held path keeps to its rate and the other one carries most. With the paper's receive buffer of 0.72 MB,
some of which waits for the held path, it is not quite full.
"""

from experiments.scenarios.throttling import ALWAYS, HeldDownload
from experiments.study.readings import Readings, Verdict, at_most

_SOON = 50.0  # ms from the join to the hold, on a machine that emulates the links as well


class ThrottleFirst(HeldDownload):
    """The throttler holds by itself."""

    paper = "figure 6a"
    claim = (
        "The first download is throttled by itself when the second subflow joins, after what that takes to complete."
    )
    expected = (
        "The hold comes milliseconds after the join; the held path keeps to its rate, the other one carries most."
    )
    held, title = ALWAYS, "held from the join on"

    def on_first_path(self, _path: str, readings: Readings, who: str) -> Verdict:
        taken = readings.estimate("enforcement_ms")
        return at_most(f"the hold comes by itself, soon after the join ({who})", taken, _SOON, "ms")

"""The same client once more, with the policy already installed: the rule stands before the session begins.

    client ==wired====== gateway ---- server   10 Mbit/s, held to 1 Mbit/s from the session's beginning on
           ==wireless===                       6 Mbit/s

The rule asks for one subflow (min_subflows = 1) where that of `throttle-first` asks for two: so it takes hold of a
session's first subflow when that is established, and does not wait for a join.

Derived: when the hold came, before or after the join; each path's rate on the wire from the request on. Expected: the
path is held before the other one has joined, so that it never carries more than its rate, and the other one carries
most.
"""

from experiments.scenarios.throttling import INSTALLED, HeldDownload
from experiments.study.readings import Readings, Verdict, worst


class ThrottleAgain(HeldDownload):
    """The rule is there before."""

    paper = "figure 6b"
    claim = "With the policy already installed the same client's next download is throttled from its beginning."
    expected = "The path is held before the other one joins and keeps to its rate; the other one carries most."
    held, title = INSTALLED, "rule installed before"

    def on_first_path(self, _path: str, readings: Readings, who: str) -> Verdict:
        waited = readings.values("enforcement_ms")
        return worst(f"the hold does not wait for the join ({who})", waited, 0, "ms after it")

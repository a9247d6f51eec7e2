"""What the senders of a host's MPTCP subflows think of their paths, at short intervals, as ``ss -ti`` shows it.

    python -m experiments.probes.senders

Prints ``ready``, and then one JSON array a line, ten a second, until SIGTERM:

    [UNIX TIME, [[REMOTE ADDRESS, REMOTE PORT, CONGESTION WINDOW IN SEGMENTS, ROUND-TRIP TIME IN ms, SENT AGAIN], ...]]

The round-trip time is the smoothed one, and what was sent again counts segments since the subflow began.
"""

import json
import signal
import sys
import time

from tributary.mptcp.sockets import traffic

_EVERY = 0.1


def main() -> None:
    """Look and print until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    print("ready", flush=True)
    while True:
        now = time.time()
        seen = [
            [subflow.remote, subflow.remote_port, each.window, each.rtt_us / 1000, each.retransmitted]
            for subflow, each in traffic().items()
        ]
        print(json.dumps([now, seen]), flush=True)
        time.sleep(_EVERY)


if __name__ == "__main__":
    main()

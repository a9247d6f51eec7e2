"""What does the console cost beside 10,000 sessions, with 100 pages open?

The handshakes of the sessions, two subflows each, are played on the wire of a throttler, as in throttler-scale. The
console beside it is read by so many pages; processor time is that of its process, and of the throttler for being asked
once a second, in percent of one processor. Then a browser opens the page, if there is one.
"""

import sys
import time
from pathlib import Path

from pydantic import Field

from experiments.bench import pair, throttler_scale
from experiments.probes.first_paint import CHROMIUM
from experiments.study.experiment import Count, Experiment, Repeat, Seconds
from experiments.study.readings import Point, Reading
from experiments.testbed.build import Testbed
from experiments.testbed.cables import PATHS
from experiments.testbed.node import python
from experiments.testbed.usage import Clocks, resident

_SERVER = "127.0.0.1:8480"
_BY_SESSION, _BY_CLIENT = 2, 20
_WARM_UP = 5.0
"""Seconds before it is measured."""


class Console(Experiment):
    """Beside so many ``sessions``, so many ``pages`` are open for ``seconds``."""

    claim = "What does the console cost beside 10,000 sessions, with 100 pages open?"
    quick = {"repeat": 1, "sessions": 500, "pages": 20, "seconds": 4.0}
    at = [{"interface": PATHS[0]}]
    ground = pair.PAIR
    quotes = (
        "page_kb",
        "first_paint_ms",
        "cpu_pct_10k",
        "throttler_cpu_pct_10k",
        "rss_mb",
        "looks_a_second",
        "kb_a_look",
    )

    repeat: Repeat = 3
    sessions: Count = 10_000
    pages: int = Field(default=100, ge=1, le=128, description="a whole number of pages from 1 to 128")
    seconds: Seconds = 20.0

    def measure(self, testbed: Testbed, point: Point, repetition: int) -> Reading:
        """Per second, while the pages are open."""
        testbed.gateway.sysctl(net__ipv4__ip_forward=0)
        state = testbed.directory / f"console-{repetition}"
        run_console = python("console", "run", "--state-directory", str(state))
        with pair.throttling(testbed, throttler_scale.RULE, "sniffer") as throttler:
            throttler_scale.play(testbed, _BY_SESSION * self.sessions, _BY_SESSION, _BY_CLIENT)
            with testbed.gateway.start("console", run_console).wait_until_ready() as console:
                time.sleep(_WARM_UP)
                clocks = [Clocks([each.popen.pid]) for each in (console, throttler)]
                start = time.monotonic()
                pages = python("experiments.probes.pages", _SERVER, str(self.pages), str(self.seconds))
                read = testbed.gateway.told(*pages)
                took = time.monotonic() - start
                own, throttlers = (each.seconds() for each in clocks)
                held = resident(console.popen.pid)
                painted = _painted(testbed)
        return Reading(
            point,
            repetition,
            {
                **painted,
                "page_kb": read["kb"],
                "cpu_pct_10k": 100 * own / took,
                "throttler_cpu_pct_10k": 100 * throttlers / took,
                "rss_mb": held / 1e6,
                "looks_a_second": read["looks"] / self.pages / self.seconds,
                "kb_a_look": read["bytes"] / read["looks"] / 1000,
            },
        )


def _painted(testbed: Testbed) -> dict[str, float]:
    """After the pages are closed; nothing without a browser."""
    if not Path(CHROMIUM).exists():
        print(f"first_paint_ms is left out: {CHROMIUM} is not here (scripts/setup --dev installs it)", file=sys.stderr)
        return {}
    return {
        "first_paint_ms": float(testbed.gateway.run(*python("experiments.probes.first_paint", f"http://{_SERVER}/")))
    }

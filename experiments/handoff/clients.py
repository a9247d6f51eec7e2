"""Clients of a hand-off that know nothing of it: wrk for throughput, curl for times."""

import json
import math
import subprocess
from collections.abc import Sequence

from experiments.testbed.node import Node
from tributary.settings.errors import CommandError, Exit

_LONGEST = 60
"""Seconds that a curl may take."""
_REPORT = """\
done = function(summary)
    local wrong = summary.errors
    io.write(string.format(
        '{"requests": %d, "bytes": %d, "microseconds": %d, "errors": %d}\\n',
        summary.requests, summary.bytes, summary.duration,
        wrong.connect + wrong.read + wrong.write + wrong.status + wrong.timeout
    ))
end
"""


def load(node: Node, urls: Sequence[str], connections: int, seconds: float) -> dict[str, float]:
    """So many kept connections for each of ``urls``, for so long, rounded up to whole seconds, each with one
    request at a time (wrk(1)): ``mbps``, ``per_second`` and ``errors`` of all together.

    Raises CommandError: exit 69 if wrk is not here, 71 if one fails.
    """
    script = node.write("report.lua", _REPORT)
    duration = f"{math.ceil(seconds)}s"
    how = ("--threads", "1", "--connections", str(connections), "--duration", duration, "--timeout", "20s")
    commands = [node.command(["wrk", *how, "--script", str(script), url]) for url in urls]
    started = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for each in commands]
    printed = [each.communicate()[0] for each in started]
    if any(each.returncode for each in started):
        raise CommandError(Exit.SYSTEM, f"wrk: {' '.join(' '.join(printed).split())}")
    return told([json.loads(each.splitlines()[-1]) for each in printed])


def told(reports: Sequence[dict[str, int]]) -> dict[str, float]:
    """What the reports of clients come to that ran side by side. Pure."""
    return {
        "mbps": sum(8 * each["bytes"] / each["microseconds"] for each in reports),
        "per_second": sum(1e6 * each["requests"] / each["microseconds"] for each in reports),
        "errors": sum(each["errors"] for each in reports),
    }


def times(node: Node, urls: Sequence[str], what: str, count: int) -> list[list[float]]:
    """The microseconds of ``what``, a variable of curl's such as ``time_total``, for each of ``urls``, which a curl
    gets one after the other by one connection; for each of so many curls, one after the other.

    Raises CommandError (exit 71) if a curl fails, or needs more than one connection.
    """
    wanted = " ".join(f"--output /dev/null {url}" for url in urls)
    curl = f"curl --silent --show-error --fail --max-time {_LONGEST} --write-out '%{{num_connects}} %{{{what}}}\\n'"
    loop = f"for number in $(seq {count}); do {curl} {wanted} || exit; done"
    return grouped(node.run("sh", "-c", loop), len(urls))


def grouped(printed: str, together: int) -> list[list[float]]:
    """The numbers of the lines, so many of which belong ``together``, in millionths. Pure.

    Raises CommandError (exit 71) if some that do say more than one connection.
    """
    lines = [line.split() for line in printed.splitlines()]
    groups = [lines[start : start + together] for start in range(0, len(lines), together)]
    if any(sum(int(connects) for connects, _ in group) != 1 for group in groups):
        raise CommandError(Exit.SYSTEM, "curl needed more than one connection for its objects")
    return [[1e6 * float(number) for _, number in group] for group in groups]

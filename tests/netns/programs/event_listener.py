"""Answers lines of its input by what the kernel tells of MPTCP: events, a snapshot of its sockets, or their traffic."""

import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from tributary.kernel import routes
from tributary.mptcp import sockets
from tributary.mptcp.path_manager import EventsLost, PathManager


def told(events: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {
            "kind": type(event).__name__,
            "subflow": str(getattr(event, "subflow", "")),
            "token": event.token,
            "interface": getattr(event, "interface", None),
            "initial": getattr(event, "initial", None),
            "backup": getattr(event, "backup", None),
            "address": getattr(event, "address", None),
        }
        for event in events
    ]


with PathManager(routes.interface_of, int(sys.argv[1])) as manager:
    print("ready", flush=True)
    for line in sys.stdin:
        answer: object
        if line.strip() == "snapshot":
            answer = told(sockets.differences({}, sockets.snapshot(time.time_ns()), routes.interface_of, 0))
        elif line.strip() == "traffic":
            answer = [[str(name), each.acked, each.received] for name, each in sockets.traffic().items()]
        else:
            try:
                answer = told(manager.events(1000))
            except EventsLost:
                answer = "lost"
        print(json.dumps(answer), flush=True)

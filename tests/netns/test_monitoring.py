import json
import os
import signal
import subprocess
import sys
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.netns.traces import nothing_new, traces
from tests.netns.world import eventually, needs, process
from tests.unit.test_monitoring import ALERTS, expressions
from tributary.api.places import CONSOLE
from tributary.daemons import directories

pytestmark = needs("prometheus")


def asked(page: str, path: str) -> Any:
    with urlopen(f"{page}api/v1/{path}", timeout=20) as answer:
        found = json.load(answer)
    assert found["status"] == "success", found
    return found["data"]


def query(page: str, text: str) -> list[dict[str, Any]]:
    encoded = urlencode({"query": text.replace("$__rate_interval", "10s").replace("$instance", ".*")})
    found: list[dict[str, Any]] = asked(page, f"query?{encoded}")["result"]
    return found


def test_every_query_is_answered_and_traffic_is_counted() -> None:
    directories.make_run(CONSOLE.folder)  # it stays, as /run/tributary does
    before = traces()
    command = (sys.executable, "-m", "experiments.console", "--prometheus", "0", "--port", "0")
    with process(*command, "--name", f"mon{os.getpid()}", stderr=subprocess.DEVNULL) as demo:
        assert demo.stdout is not None
        page = demo.stdout.readline().removeprefix("Prometheus: ").partition("alerts")[0]
        assert demo.stdout.readline().startswith("open http://127.0.0.1:")
        eventually(lambda: len(query(page, "up == 1")) == 2, 30)
        eventually(lambda: query(page, "tributary_converter_open_connections > 0"), 30)
        assert len(query(page, "tributary_throttler_sessions > 0")) == 1
        for _, text in expressions():
            query(page, text)
        (group,) = asked(page, "rules?type=alert")["groups"]
        assert [rule["name"] for rule in group["rules"]] == [rule["alert"] for rule in ALERTS]
        assert all(rule["health"] == "ok" for rule in eventually(lambda: evaluated(page), 30))
        demo.send_signal(signal.SIGINT)
        demo.wait(60)
    eventually(lambda: nothing_new(before))


def evaluated(page: str) -> list[dict[str, Any]] | None:
    (group,) = asked(page, "rules?type=alert")["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules if all(rule["health"] != "unknown" for rule in rules) else None

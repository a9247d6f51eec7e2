"""Dashboards and rules name metrics, labels and values that the parts export; promtool accepts and tests the rules."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from command import account_metrics
from doctor.findings import ok
from doctor.record import write_metrics
from overlay.reader import metrics as overlay_metrics
from router import metrics as router_metrics
from tests import converter_metrics
from tests.unit.overlay.test_metrics import read
from tests.unit.router import answer as routers
from tests.unit.throttler.answer import answer
from tests.unit.throttler.test_metrics import page as page_of
from throttler.service.metrics import Exporter
from tributary.api.documents import Account
from tributary.paths import ROOT

yaml = pytest.importorskip("yaml", reason="PyYAML, which comes with ansible-core, is not installed")
FILES = ROOT / "ansible/roles/metrics/files"
RULES = FILES / "tributary.rules.yml"
RULES_TEST = ROOT / "tests/unit/tributary.rules.test.yml"
(GROUP,) = yaml.safe_load(RULES.read_text())["groups"]
RECORDS = [rule for rule in GROUP["rules"] if "record" in rule]
ALERTS = [rule for rule in GROUP["rules"] if "alert" in rule]
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((FILES / "dashboards").glob("*.json"))}

SCRAPED = frozenset({"instance", "job"})
"""Labels that Prometheus adds to whatever it scrapes."""
OWN = {"up": SCRAPED, "ALERTS": frozenset({"alertname", "alertstate", "instance", "severity"})}
"""Metrics that Prometheus makes itself."""
CHOSEN = SCRAPED | OWN["ALERTS"]
"""Labels with values that no part exports."""
RECORDED = {rule["record"]: frozenset(rule["record"].partition(":")[0].split("_")) for rule in RECORDS}
"""Their names begin with their labels, as Prometheus' documentation advises."""
CONVERTER = converter_metrics.listed()


def exported(page: str) -> dict[str, frozenset[str]]:
    families = text_string_to_metric_families(page)
    return {sample.name: frozenset(sample.labels) for family in families for sample in family.samples}


def of_the_doctor() -> str:
    with TemporaryDirectory() as folder:
        write_metrics(file := Path(folder, "tributary.prom"), [ok("mptcp", "it is on")], 1.5)
        return file.read_text()


def of_accounts() -> str:
    with TemporaryDirectory() as folder:
        account = Account(day=None, client=None, router="smith", path="lte", connections=1, received=2, sent=3)
        account_metrics.write(file := Path(folder, "accounts.prom"), [account], ("router", "path"), 1.5)
        return file.read_text()


SQUIDS = (ROOT / "tests/unit/squid-exporter.prom").read_text()
ROUTERS = router_metrics.page(routers.answer(), routers.CARRIED.get)
MADE = (page_of(Exporter(), answer()), ROUTERS, overlay_metrics.page(read()))
PAGES = (*(page.decode() for page in MADE), of_the_doctor(), of_accounts(), SQUIDS)
EXPORTED = CONVERTER | {name: labels for page in PAGES for name, labels in exported(page).items()}
METRICS = {name: labels | SCRAPED for name, labels in EXPORTED.items()} | OWN | RECORDED
CODE = "\n".join(
    path.read_text()
    for folder, files in (
        *((f"{crate}/src", "*.rs") for crate in ("converter/proxy", "converter/offload", "handoff/front")),
        *((part, "*.py") for part in ("throttler", "doctor", "router", "overlay")),
    )
    for path in (ROOT / folder).rglob(files)
)
"""Has the values of labels as string literals."""
UNITS = {"bool_yes_no", "bps", "bytes", "ops", "percentunit", "pps", "s", "short"}

_CHARACTERS = r'(?:[^"\\]|\\.)*'
_GROUPING = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Expression:
    """The names in an expression of PromQL."""

    metrics: set[str]
    values: list[tuple[str, str]]
    """Labels, and what they are compared with."""
    grouped: set[str]
    """Labels that are summed by."""

    @property
    def labels(self) -> set[str]:
        """Those that its result has."""
        return self.grouped or labels_of(self.metrics)


def labels_of(metrics: set[str]) -> set[str]:
    return set().union(*(METRICS[name] for name in metrics))


def parse(text: str) -> Expression:
    values = re.findall(rf'(\w+)\s*(?:=~|!~|!=|=)\s*"({_CHARACTERS})"', text)
    text = re.sub(f'"{_CHARACTERS}"', "", text)
    grouped = {label for labels in _GROUPING.findall(text) for label in re.findall(r"\w+", labels)}
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|offset \w+", "", _GROUPING.sub("", text))
    # What a parenthesis follows is a function.
    metrics = set(re.findall(r"\b[a-zA-Z_][\w:]*\b(?!\s*\()", bare)) - {"and", "or", "unless"}
    return Expression(metrics, values, grouped)


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    return ((f"{name}:{panel['title']}", panel) for name, board in DASHBOARDS.items() for panel in board["panels"])


def expressions() -> Iterator[tuple[str, str]]:
    """Where it is, and its text."""
    yield from ((rule.get("record") or rule["alert"], rule["expr"]) for rule in GROUP["rules"])
    yield from ((where, target["expr"]) for where, panel in panels() for target in panel["targets"])
    for name, board in DASHBOARDS.items():
        for variable in board["templating"]["list"][1:]:
            text = variable["definition"].removeprefix("label_values(").removesuffix(", instance)")
            yield f"{name}:${variable['name']}", text


@pytest.mark.parametrize(
    ("text", "metrics", "labels"),
    [
        ('sum by (a, b) (rate(x_total{c=~"d|e", f!="{"}[5m])) / 2e9 > 0', {"x_total"}, {"a", "b", "c", "f"}),
        ("a:b:c offset 1d unless on (x) (y or z)", {"a:b:c", "y", "z"}, {"x"}),
        ("histogram_quantile(0.5, sum by (le) (rate(h_bucket[$__rate_interval])))", {"h_bucket"}, {"le"}),
    ],
)
def test_names_are_found_in_an_expression(text: str, metrics: set[str], labels: set[str]) -> None:
    found = parse(text)
    assert (found.metrics, found.grouped | {label for label, _ in found.values}) == (metrics, labels)


def test_the_converters_page_lists_what_the_converter_registers() -> None:
    source = (ROOT / "converter/proxy/src/observe/metrics.rs").read_text()
    registered = re.findall(r'\b(?:add|measured)\(\s*r,\s*"(\w+)",(?:\s*Unit::(\w+))?', source)
    names = {"_".join(filter(None, ("tributary_converter", name, unit.lower()))) for name, unit in registered}
    assert {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in CONVERTER} == names
    labels = frozenset().union(*CONVERTER.values()) - {"le"}
    assert [label for label in labels if f'("{label}", ' not in source] == []


@pytest.mark.parametrize("text", [pytest.param(text, id=where) for where, text in expressions()])
def test_metrics_labels_and_values_in_an_expression_are_there(text: str) -> None:
    found = parse(text)
    assert found.metrics and found.metrics - METRICS.keys() == set()
    assert found.grouped | {label for label, _ in found.values} <= labels_of(found.metrics)
    patterns = [value for label, values in found.values if label not in CHOSEN for value in values.split("|")]
    assert [pattern for pattern in patterns if not re.search(f'"{pattern}"', CODE)] == []


@pytest.mark.parametrize("rule", RECORDS, ids=lambda rule: rule["record"])
def test_a_recorded_metrics_name_begins_with_its_labels(rule: dict[str, Any]) -> None:
    assert parse(rule["expr"]).grouped - {"le"} == RECORDED[rule["record"]]


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["annotations"].keys() == {"summary", "description"}
    assert rule["labels"]["severity"] in ("critical", "warning")
    named = re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values()))
    assert set(named) <= parse(rule["expr"]).labels


def test_every_alert_fires_in_the_rules_own_tests() -> None:
    fired = re.findall(r'alertname="(\w+)"', RULES_TEST.read_text())
    assert set(fired) == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("panel", [pytest.param(panel, id=where) for where, panel in panels()])
def test_a_panel_has_a_unit_and_names_labels_that_its_series_have(panel: dict[str, Any]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
    for target in panel["targets"]:
        named = set(re.findall(r"{{(\w+)}}", target.get("legendFormat", "")))
        assert named <= parse(target["expr"]).labels


@pytest.mark.parametrize("board", DASHBOARDS.values(), ids=DASHBOARDS.keys())
def test_a_dashboards_panels_are_apart_and_ask_the_chosen_prometheus(board: dict[str, Any]) -> None:
    assert [variable["name"] for variable in board["templating"]["list"]] == ["datasource", "instance"]
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"${datasource}"}
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for one, other in combinations((panel["gridPos"] for panel in board["panels"]), 2):
        assert any(
            low[axis] + low[size] <= high[axis]
            for axis, size in (("x", "w"), ("y", "h"))
            for low, high in ((one, other), (other, one))
        )


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


@needs_promtool
def test_promtool_accepts_the_rules_and_they_fire_as_they_should() -> None:
    promtool("check", "rules", RULES)
    promtool("test", "rules", RULES_TEST)


@needs_promtool
def test_promtool_accepts_every_expression_of_a_panel(tmp_path: Path) -> None:
    asked = [target["expr"].replace("$__rate_interval", "5m") for _, panel in panels() for target in panel["targets"]]
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(asked)]
    file = tmp_path / "panels.yml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)

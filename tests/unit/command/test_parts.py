"""What parts say that only some gateways have."""

import json
import time
from pathlib import Path

import pytest

from command import parts
from tests.refusals import command_error
from tributary.api.parts import Fleet
from tributary.settings.errors import Exit

METRICS = """\
# HELP tributary_converter_open_connections Connections that are open.
# TYPE tributary_converter_open_connections gauge
tributary_converter_open_connections 3
tributary_converter_dial_seconds_sum 0.25
tributary_converter_handoff_requests_total{decision="handed-over"} 12
tributary_converter_handoff_failures_total{reason="switch-away"} 1
tributary_converter_outcomes_total{listener="a",outcome="ok"} 4
"""
FRONT = """\
tributary_converter_handoff_switch_up{} 1
tributary_converter_handoff_back_end_up{name="a"} 1
tributary_converter_handoff_back_end_up{name="b"} 0
tributary_converter_handoff_back_end_connections{name="a"} 2
"""


def test_a_front_is_read_by_its_metrics_and_a_converter_without_a_switch_is_none() -> None:
    front = parts.read_front(parts.samples(METRICS + FRONT))
    assert front is not None and front.switch_up
    assert [(each.name, each.up, each.connections) for each in front.back_ends] == [("a", True, 2), ("b", False, 0)]
    assert (front.requests, front.failures) == ({"handed-over": 12}, {"switch-away": 1})
    assert parts.handoff_summary(front)[1] == "switch up, 1 of 2 back ends up, 12 requests handed over"
    assert parts.read_front(parts.samples(METRICS)) is None


@pytest.mark.parametrize(
    ("announced", "drained", "answers", "heard", "summary"),
    [
        (True, None, True, True, "announced"),
        (False, "upgrade", True, True, "withdrawn: drained (upgrade), 3 connections left"),
        (True, "maintenance", True, True, "still announced: drained (maintenance)"),
        (False, None, False, True, "withdrawn: a proxy does not answer, 3 connections left"),
        (True, None, False, True, "announced, but a proxy does not answer"),
        (False, None, True, True, "withdrawn: about to be announced, 3 connections left"),
        (False, None, True, False, "not announced: no router hears it, 3 connections left"),
        (None, None, True, False, "not known: BIRD does not answer"),
    ],
)
def test_a_gateway_is_announced_or_says_why_not(
    announced: bool | None, drained: str | None, answers: bool, heard: bool, summary: str
) -> None:
    fleet = Fleet(announced=announced, drained=drained, answers=answers, heard=heard, connections=3)
    assert parts.fleet_summary(fleet)[1] == summary


def test_what_the_fleets_program_has_written_is_read(fleet_status: Path) -> None:
    fleet_status.write_text(json.dumps({"time": time.time(), "announced": True, "drained": None, "answers": True}))
    assert parts.fleet().announced is True


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (None, "no tributary-anycast runs here"),
        ("[", "cannot be read"),
        ("[]", "cannot be read"),
        ('{"time": "now"}', "cannot be read"),
        ('{"time": 0, "announced": true, "drained": null, "answers": true}', "does not run"),
    ],
)
def test_what_is_not_there_or_old_or_broken_is_not_running(fleet_status: Path, text: str | None, refusal: str) -> None:
    if text is not None:
        fleet_status.write_text(text)
    with command_error(Exit.UNAVAILABLE, refusal):
        parts.fleet()

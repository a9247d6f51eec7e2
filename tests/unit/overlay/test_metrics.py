import pytest

pytest.importorskip("prometheus_client")

from overlay.reader.metrics import page
from overlay.reader.reading import NOTHING, overlay
from tests.unit import prometheus
from tests.unit.overlay.test_reading import LINE, node, status
from tributary.api.parts import Overlay

CHAINS = {"b": [{"rounds": 1, "through": []}], "c": [{"rounds": 1, "through": ["b"]}]}


def read() -> Overlay:
    """Three nodes on a line, one of which is silent, and one that is gone."""
    before = overlay(status(*LINE, node("d")), NOTHING)
    a, b, c = LINE
    known = {"pressure_percent": 25, "converter_silent": True}
    found = overlay(status(a, b, c | known, chains=CHAINS) | {"refused": ["d: no delays"]}, before)
    return found.model_copy(update={"uptime": 12.5, "age": 1.5})


def samples(document: Overlay) -> dict[tuple[str, tuple[str, ...]], float]:
    return prometheus.samples(page(document), "tributary_overlay")


def test_metrics_have_their_values() -> None:
    values = {
        ("uptime_seconds", ()): 12.5,
        ("read", ()): 1,
        ("reading_age_seconds", ()): 1.5,
        ("computed_age_seconds", ()): 2,
        ("controllers", ()): 1,
        ("refused", ()): 1,
        ("nodes", ()): 4,
        ("nodes_up", ()): 2,
        ("node_up", ("a",)): 1,
        ("node_up", ("c",)): 0,
        ("node_up", ("d",)): 0,
        ("node_pressure_ratio", ("c",)): 0.25,
        ("node_delays", ("a",)): 2,
        ("hop_rtt_seconds", ("a", "b")): 0.012,
        ("hop_chains", ("a", "b")): 2,
    }
    assert samples(read()).items() >= values.items()


def test_without_a_controller_there_is_none_and_before_the_first_reading_nothing_is_said() -> None:
    assert samples(read().model_copy(update={"controller": None}))["controllers", ()] == 0
    assert samples(NOTHING.model_copy(update={"problem": "etcd does not answer"})) == {
        ("uptime_seconds", ()): 0,
        ("read", ()): 0,
    }


def test_a_reading_that_failed_is_told_beside_the_last_one() -> None:
    found = samples(read().model_copy(update={"problem": "etcd does not answer", "age": 60.0}))
    assert (found["read", ()], found["reading_age_seconds", ()], found["controllers", ()]) == (0, 60, 1)

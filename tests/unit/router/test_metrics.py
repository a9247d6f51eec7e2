import pytest

pytest.importorskip("prometheus_client")

from prometheus_client.parser import text_string_to_metric_families

from router.metrics import page
from tests.unit import prometheus
from tests.unit.router.answer import CARRIED, answer

PREFIX = "tributary_router"


def samples() -> dict[tuple[str, tuple[str, ...]], float]:
    return prometheus.samples(page(answer(), CARRIED.get), PREFIX)


def test_metrics_have_their_values() -> None:
    values = {
        ("uptime_seconds", ()): 12.5,
        ("link_up", ("dsl",)): 0,
        ("link_up", ("lte",)): 1,
        ("link_allowed", ("dsl",)): 1,
        ("link_standby", ("lte",)): 0,
        ("link_state_seconds", ("dsl",)): 30,
        ("link_rank", ("lte",)): 2,
        ("link_endpoints", ("dsl",)): 0,
        ("link_rtt_seconds", ("lte",)): 0.0312,
        ("link_mtu_bytes", ("lte",)): 1480,
        ("link_probes_total", ("lte",)): 2,
        ("link_unanswered_probes_total", ("lte",)): 1,
        ("link_cap_bytes", ("lte",)): 50e9,
        ("link_cap_used_bytes", ("lte",)): 20e9,
        ("link_shaped_bytes_per_second", ("download", "lte")): 2.5e6,
        ("link_received_bytes_total", ("lte",)): 1000,
        ("link_sent_bytes_total", ("lte",)): 200,
        ("gateway_answers", ()): 1,
        ("gateway_first", ()): 1,
        ("tunnel_received_bytes_total", ("", "tb0")): 30,
        ("tunnel_sent_bytes_total", ("lte", "tb2")): 4,
    }
    assert samples().items() >= values.items()


@pytest.mark.parametrize("what", ["rtt_seconds", "cap_bytes", "shaped_bytes_per_second", "received_bytes_total"])
def test_what_is_not_known_of_a_link_has_no_value(what: str) -> None:
    assert [labels for found, labels in samples() if found == f"link_{what}" and "dsl" in labels] == []


@pytest.mark.parametrize(
    ("reason", "allowed"), [(None, 1), ("no carrier", 1), ("outside of its hours, used again at 22:00", 0)]
)
def test_a_link_that_its_settings_keep_from_use_is_told_from_one_that_fails(reason: str | None, allowed: float) -> None:
    status = answer()
    status["wan"][0]["reason"] = reason
    assert f'{PREFIX}_link_allowed{{link="dsl"}} {allowed:.1f}' in page(status, CARRIED.get).decode()


def test_every_metric_has_help_and_no_label_is_an_address() -> None:
    text = page(answer(), CARRIED.get).decode()
    assert all(family.documentation for family in text_string_to_metric_families(text))
    assert not any(secret in text for secret in ("192.168.", "10.84.", "203.0.113.", "gateway.example"))

"""The pure parts of the benchmarks of a relay that offloads."""

from collections.abc import Iterator
from typing import Any

import pytest

from experiments.bench import offload, offload_soak
from experiments.bench.offload import Sample


def samples(before: float, after: float, gap: float) -> Iterator[Sample]:
    """Of 10 s with 100 a second: the relay offloads at 5 s; bytes a second, and ``gap`` seconds without any."""
    sent = 0.0
    for number in range(1000):
        at = number / 100
        processor = 0.4 * min(at, 5) + 0.1 * max(0, at - 5)
        yield Sample(100 + at, int(sent), processor, offloaded=at >= 5)
        sent += (before if at < 5 else 0 if at < 5 + gap else after) / 100


def test_before_and_after_are_moments_of_one_transfer() -> None:
    told = offload.told(list(samples(before=1e9, after=2e9, gap=0.2)))
    assert told["before_mbps"] == pytest.approx(8000)
    assert told["after_mbps"] == pytest.approx(16000)
    assert told["before_cpu_ms_per_gb"] == pytest.approx(400)
    assert told["after_cpu_ms_per_gb"] == pytest.approx(50)
    assert told["dip_ms"] == pytest.approx(200, abs=11)


def test_without_a_gap_there_is_no_dip() -> None:
    assert offload.told(list(samples(before=1e9, after=1e9, gap=0)))["dip_ms"] == 0


def test_what_the_relay_told_is_counted() -> None:
    lines: list[dict[str, Any]] = [
        {"paused": 30.0},
        {"paused": 50.0},
        {"paused": 40.0},
        {"relayed": 100, "translated": 300, "refused": 0},
        {"relayed": 100, "translated": 500, "refused": 2},
        {"relayed": 100, "translated": 0, "refused": 0},
        {"reason": "it was not tried", "relayed": 500},
    ]
    assert offload_soak.told(lines) == {
        "transfers": 4,
        "offloaded": 3,
        "offloaded_percent": 75,
        "translated_percent": pytest.approx(100 * 800 / 1100),
        "refused": 2,
        "paused_ms": 40,
    }

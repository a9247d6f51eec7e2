"""The demo's arithmetic and verdicts, on downloads that are made up: a verdict must be able to fail."""

from dataclasses import replace
from typing import Any

import pytest

from experiments.demo.summary import BeyondWindow, Run, claims, kernels_part, summary
from experiments.enforcement import Enforcement
from experiments.record import Download, Sample, read_download
from experiments.testbed.profile import DEFAULT
from experiments.testbed.topology import Profile, Topology
from tributary.settings.files import load

WIRED, WIRELESS = ("wired", "10.0.1.2:1"), ("wireless", "10.0.2.2:2")
TOPOLOGY = Topology.of(load(DEFAULT, Profile))


def sample(at: float, wired: int, wireless: int) -> Sample:
    return Sample(at, {WIRED: wired, WIRELESS: wireless}, {"wired": wired, "wireless": wireless})


def download(name: str, seconds: float, wired: int, wireless: int) -> Download:
    """A download of 50 MB at steady rates."""
    steps = [sample(seconds * n / 10, wired * n // 10, wireless * n // 10) for n in range(11)]
    return Download(name, started=1000.0, status=200, size=50_000_000, sha256="right", samples=steps)


GOOD = Run(
    downloads={
        "legacy_wired": download("legacy_wired", 4.2, 50_000_000, 0),
        "legacy_wireless": download("legacy_wireless", 21, 0, 50_000_000),
        "mptcp": download("mptcp", 3.7, 41_700_000, 8_300_000),
        "mptcp_native": download("mptcp_native", 3.7, 41_700_000, 8_300_000),
        "mptcp_throttled": download("mptcp_throttled", 17, 10_500_000, 39_500_000),
    },
    sha256="right",
    topology=TOPOLOGY,
    held_mbps=5,
    enforcement=Enforcement(join_ack=1000.050, first_held=1000.060),
)


def with_download(new: Download) -> Run:
    return replace(GOOD, downloads={**GOOD.downloads, new.name: new})


HELD = GOOD.downloads["mptcp_throttled"]
THIRD = replace(HELD.samples[-1], received={**HELD.samples[-1].received, ("wired", "10.0.1.2:3"): 1})
"""Of a subflow that was made again."""


def test_a_good_run_holds_every_claim() -> None:
    assert [claim.claim for claim in claims(GOOD) if not claim.holds] == []


@pytest.mark.parametrize(
    ("run", "broken"),
    [
        (with_download(replace(GOOD.downloads["mptcp"], sha256="wrong")), "SHA-256"),
        (with_download(download("mptcp", 3.7, 50_000_000, 0)), "subflows that carry data"),
        (with_download(download("mptcp", 4.0, 41_700_000, 8_300_000)), "MPTCP reaches 90 % of the sum"),
        (with_download(download("mptcp_native", 3.7, 50_000_000, 0)), "subflows that carry data"),
        (with_download(download("mptcp_native", 4.0, 41_700_000, 8_300_000)), "the native converter reaches 90 %"),
        (with_download(download("mptcp", 4.3, 41_700_000, 8_300_000)), "beats the faster link"),
        (with_download(download("mptcp_throttled", 17, 11_500_000, 38_500_000)), "wired, throttled, on the wire"),
        (with_download(download("mptcp_throttled", 20, 10_500_000, 39_500_000)), "wireless, while wired is throttled"),
        (with_download(replace(HELD, samples=[*HELD.samples[:-1], THIRD])), "no reconnect"),
    ],
)
def test_a_claim_that_is_not_met_fails(run: Run, broken: str) -> None:
    assert any(broken in claim.claim and not claim.holds for claim in claims(run))


def test_what_the_kernel_took_is_told_and_excuses_nothing() -> None:
    assert kernels_part(GOOD) is None
    slow = with_download(download("mptcp_throttled", 24, 13_500_000, 36_500_000))
    slow = replace(slow, beyond_window=BeyondWindow(73, 28))
    told = kernels_part(slow)
    assert told is not None and "73 packets" in told and "28 pieces" in told
    assert summary(slow)["beyond_window"] == {"dropped": 73, "sent_again": 28}
    assert any("wireless, while wired is throttled" in claim.claim and not claim.holds for claim in claims(slow))


def test_the_summary_has_what_its_readers_rely_on() -> None:
    content: dict[str, Any] = summary(GOOD)
    assert content["enforcement_ms"] == pytest.approx(10)
    assert content["throttled_after_s"] == pytest.approx(0.06)
    assert content["mptcp"] == {
        "seconds": 3.7,
        "mbps": 108.11,
        "sha256_ok": True,
        "subflows": [
            {"path": "wired", "bytes": 41_700_000, "mbps": 90.16, "share": 0.834, "wire_mbps": 90.16},
            {"path": "wireless", "bytes": 8_300_000, "mbps": 17.95, "share": 0.166, "wire_mbps": 17.95},
        ],
    }


def test_a_subflow_that_closes_stays_counted() -> None:
    lines: list[dict[str, Any]] = [
        {"at": 0.1, "subflows": [{"local": "10.0.1.2:1", "remote": "p", "received": 7}], "wire": {}},
        {"at": 0.2, "subflows": [{"local": "[fd00:0:0:2::2]:2", "remote": "p", "received": 5}], "wire": {}},
    ]
    lines[-1] |= {"started": 0, "status": 200, "bytes": 12, "sha256": ""}
    assert read_download("mptcp", lines, TOPOLOGY.path_of).samples[-1].by_path() == {"wired": 7, "wireless": 5}


def test_rates_are_those_between_samples() -> None:
    rates = list(GOOD.downloads["legacy_wired"].rates())
    assert len(rates) == 20
    at, path, count, mbps = rates[0]
    assert (path, count) == ("wired", 5_000_000)
    assert at == pytest.approx(0.42) and mbps == pytest.approx(95.2, abs=0.1)

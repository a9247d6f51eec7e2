import re
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from doctor import kernel
from doctor.kernel import PROBES, Probe, examine
from tributary.kernel.process import TimedOut
from tributary.paths import ROOT
from tributary.settings.errors import Exit

FRAGMENTS = sorted((ROOT / "kernel-config").glob("*.config"))


def test_each_fragment_has_a_probe_and_each_probe_a_fragment_and_no_option_is_in_two() -> None:
    assert {probe.capability for probe in PROBES} == {fragment.stem for fragment in FRAGMENTS}
    options = [line for fragment in FRAGMENTS for line in fragment.read_text().splitlines() if line[:1] == "C"]
    assert len(set(options)) == len(options)


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda fragment: fragment.stem)
def test_a_fragment_asks_for_each_option_once_and_begins_with_its_reason(fragment: Path) -> None:
    lines = fragment.read_text().splitlines()
    options = [line for line in lines if not line.startswith("#")]
    assert lines[0].startswith("# ")
    assert all(re.fullmatch(r"CONFIG_[A-Z0-9_]+=[ym]", option) for option in options)
    assert len(set(options)) == len(options)


@pytest.mark.parametrize(("required", "state"), [(True, "wrong"), (False, "note")])
def test_a_missing_feature_is_named_with_what_becomes_of_the_appliance(
    required: bool, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "works", lambda script: script == "true")
    missing = Probe("htb", "warp drive", "false", "it is slow", required)
    (finding,) = examine([missing])
    assert finding.state.value == state
    assert finding.message == "no warp drive: it is slow"
    assert "kernel-config/htb.config" in finding.advice


def test_a_feature_whose_trial_does_not_end_is_not_known_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under load a module may take long to load."""

    def slow(command: Sequence[str], timeout: float) -> CompletedProcess[str]:
        if command[-1] != "true":
            raise TimedOut(Exit.SYSTEM, f"did not end in {timeout:g} s")
        return CompletedProcess(command, 0)

    monkeypatch.setattr(kernel, "run", slow)
    (finding,) = examine([Probe("htb", "warp drive", "false", "it is slow")])
    assert (finding.state.value, finding.message) == ("unknown", "warp drive: trying it took over 60 s")


def test_where_no_namespace_can_be_made_nothing_is_known_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "works", lambda _script: False)
    (finding,) = examine()
    assert (finding.state.value, finding.message) == ("unknown", "cannot make a network namespace here")

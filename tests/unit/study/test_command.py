"""The command ``experiment``, as far as it goes without a network."""

import json

import pytest

from experiments.study.__main__ import main
from experiments.study.catalogue import SCENARIOS
from tributary.settings.errors import CommandError, Exit


def test_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == list(SCENARIOS)
    assert main(["list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SCENARIOS)


def test_dry_run_tells_what_would_be_measured(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "legacy", "--dry-run", "--repeat", "5", "--set", "size=2MB", "--set", "wired.delay=40ms"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "legacy: 4 points, 5 times each"
    assert len(lines) == 5


def test_a_wrong_setting_is_refused_by_name() -> None:
    with pytest.raises(CommandError, match="one of the keys longest, repeat, size, warm_up") as failure:
        main(["run", "legacy", "--dry-run", "--set", "colour=blue"])
    assert failure.value.code == Exit.USAGE


def test_what_passes_is_kept_of_testbeds_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match="--pcap: accepted: for experiments on a testbed alone") as failure:
        main(["run", "acceleration", "--pcap", "--dry-run"])
    assert failure.value.code == Exit.USAGE
    with pytest.raises(SystemExit) as ended:
        main(["run", "legacy", "--pcap", "--hosts", "hosts.toml", "--dry-run"])
    assert ended.value.code == Exit.USAGE
    assert "--pcap and --hosts: accepted: one of them" in capsys.readouterr().err

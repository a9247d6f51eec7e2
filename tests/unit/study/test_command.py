"""The command ``experiment``, as far as it goes without a network."""

import json

import pytest

from experiments.study.__main__ import main
from experiments.study.catalogue import SCENARIOS
from tests.refusals import command_error, usage_error
from tributary.settings.errors import Exit


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
    with command_error(Exit.USAGE, "one of the keys longest, repeat, size, warm_up"):
        main(["run", "legacy", "--dry-run", "--set", "colour=blue"])


def test_what_passes_is_kept_of_testbeds_alone(capsys: pytest.CaptureFixture[str]) -> None:
    with command_error(Exit.USAGE, "--pcap: accepted: for experiments on a testbed alone"):
        main(["run", "acceleration", "--pcap", "--dry-run"])
    both = ["run", "legacy", "--pcap", "--hosts", "hosts.toml", "--dry-run"]
    assert "--pcap and --hosts: accepted: one of them" in usage_error(main, both, capsys)

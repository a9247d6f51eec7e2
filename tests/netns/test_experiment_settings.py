"""Settings of the kernel that an experiment is swept over: those that this kernel does not take end it at once."""

from pathlib import Path

import pytest

from experiments.study.__main__ import main
from tests.netns.world import run
from tributary.settings.errors import CommandError, Exit


@pytest.mark.parametrize(
    ("sweep", "refused"),
    [
        ("scheduler=default,nosuch", "net.mptcp.scheduler=nosuch"),
        ("congestion=nosuch", "net.ipv4.tcp_congestion_control=nosuch"),
        ("net.ipv4.nosuch=1", "net.ipv4.nosuch=1"),
        ("net.ipv4.tcp_ecn=1,99", "net.ipv4.tcp_ecn=99"),
    ],
)
def test_before_anything_is_made(tmp_path: Path, sweep: str, refused: str) -> None:
    before = run("ip", "netns", "list")
    with pytest.raises(CommandError, match=f"{refused}: this machine does not take it") as caught:
        main(["run", "multipath", "--sweep", sweep, "--results", str(tmp_path)])
    assert caught.value.code == Exit.UNAVAILABLE
    assert not list(tmp_path.iterdir())
    assert run("ip", "netns", "list") == before

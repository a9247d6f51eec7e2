"""Control groups of what is measured: gone with the block, whatever still runs in them."""

import os
import subprocess
from pathlib import Path

import pytest

from experiments.testbed import cgroup
from experiments.testbed.cgroup import limited
from tests.netns.world import eventually

NAME = f"tributary-test-{os.getpid()}"


def test_what_still_runs_in_a_group_ends_with_it_and_masks_no_exit_code() -> None:
    """As when SIGTERM comes while a converter is started again and again."""
    group = cgroup._hierarchy("memory")[0] / NAME
    with pytest.raises(SystemExit) as ended, limited(NAME, memory=64_000_000, processor=0.5) as wrapper:
        child = subprocess.Popen([*wrapper, "sleep", "60"])
        eventually(lambda: (group / "cgroup.procs").read_text().split() == [str(child.pid)])
        raise SystemExit(143)
    assert ended.value.code == 143
    assert child.wait(1) == -9
    assert not [*Path("/sys/fs/cgroup").glob(f"*/{NAME}"), *Path("/sys/fs/cgroup").glob(NAME)]

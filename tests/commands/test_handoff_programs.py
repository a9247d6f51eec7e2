"""The programs of a request hand-off, started wrongly: one line that says what is missing, at once."""

import subprocess

import pytest

from experiments.testbed import native
from tests.netns.world import needs, needs_root
from tributary.settings.errors import Exit

pytestmark = [needs_root, needs("setpriv", "clang")]

SWITCH = "--fronts /nowhere --clients lo --service 192.0.2.1:80 --back-end 192.0.2.2:7400=lo"
BACK_END = "--fronts 127.0.0.1:1 --hand-off 127.0.0.1:1 --identity /nowhere --objects /"


@pytest.mark.parametrize(
    ("part", "arguments", "kept", "missing"),
    [
        ("switch", SWITCH, "net_admin,bpf", "CAP_PERFMON"),
        ("switch", SWITCH, "net_admin,perfmon", "CAP_BPF"),
        ("switch", SWITCH, "bpf,perfmon", "CAP_NET_ADMIN"),
        ("backend", BACK_END, "net_bind_service", "CAP_NET_ADMIN"),
    ],
)
def test_without_a_capability_a_program_says_at_once_which(part: str, arguments: str, kept: str, missing: str) -> None:
    programs = native.hand_off()
    program = {"switch": programs.switch, "backend": programs.back_end}[part]
    bounding = "-all," + ",".join(f"+{name}" for name in kept.split(","))
    command = ["setpriv", f"--bounding-set={bounding}", str(program), *arguments.split()]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=2)
    assert result.returncode == Exit.NO_PERMISSION, result.stderr
    assert result.stderr.startswith(f"tributary-{part}: {missing}: missing: accepted: ")
    assert result.stderr.count("\n") == 1

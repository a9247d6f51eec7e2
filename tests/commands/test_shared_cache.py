"""What several checkouts share: cargo's folder, in which what another one has built is built anew."""

import fcntl
import subprocess
from pathlib import Path

import pytest

from tributary.paths import ROOT

CHECKOUT = ROOT / "scripts/setup.d/checkout"


def test_a_cargo_that_runs_is_waited_for(tmp_path: Path) -> None:
    """It holds this lock as long as it builds (flock(2)), and breaks off if what it has built goes meanwhile."""
    folder = tmp_path / "cargo/x86_64-unknown-linux-gnu/release"
    built, registry = (folder / ".fingerprint" / name for name in ("tributary-backend-1", "serde-1"))
    for each in (built, registry):
        each.mkdir(parents=True)
    with (folder / ".cargo-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen([CHECKOUT, tmp_path])
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        assert built.exists()
    assert waiting.wait(10) == 0
    assert not built.exists()
    assert registry.exists()
    assert (tmp_path / "cargo/checkout").read_text() == str(ROOT)

"""What scripts/setup.d says while cargo compiles; and what checkouts and commands share: cargo's folder, in which what
another one has built is built anew, and the Python environment.
"""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.netns.world import eventually
from tributary.paths import ROOT

CARGO = """\
#!/bin/sh
echo '   Compiling serde v1.0.0' >&2
read -r go
echo '   Compiling tokio v1.0.0' >&2
echo 'warning: unused' >&2
exit 101
"""


@pytest.mark.timeout(20)
def test_it_says_so_when_it_begins_and_shows_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "cargo").write_text(CARGO)
    (tmp_path / "cargo").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    run = subprocess.Popen(
        [ROOT / "scripts/setup.d/compile", "--release"],
        env=os.environ | {"PATH": path},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with run:
        assert run.stdin and run.stderr
        assert run.stderr.readline() == "setup: cargo compiles; this takes minutes\n"
        run.stdin.write("go\n")
        run.stdin.close()
        assert run.stderr.read() == "warning: unused\n"
    assert run.returncode == 101


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


def test_an_environment_that_another_command_makes_is_waited_for(tmp_path: Path) -> None:
    script, cache = tmp_path / "checkout/scripts/setup.d/python", tmp_path / "cache"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / "scripts/setup.d/python", script)
    (tmp_path / "checkout/requirements.lock").touch()  # nothing to download
    with subprocess.Popen([script, cache]) as first:
        eventually((cache / "python/bin/python").exists, 60)
        done = subprocess.run([script, cache], check=True, stderr=subprocess.PIPE, text=True)
    assert first.returncode == 0
    assert done.stderr == "", "it was made once"
    subprocess.run([cache / "python/bin/pip", "--version"], check=True, stdout=subprocess.DEVNULL)

"""What a run that no terminal shows says while cargo compiles."""

import os
import subprocess
from pathlib import Path

import pytest

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

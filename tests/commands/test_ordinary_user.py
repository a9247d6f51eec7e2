"""Who is not root runs what needs no root, in a clone of their own with an environment that is there."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tributary.paths import ROOT

USER = 65534
"""nobody"""

COMMANDS = (
    ("throttler", "--help"),
    ("throttler", "plan", "tc-policies/dsl-relief.toml"),
    ("experiment", "list"),
    ("experiment", "report", "--help"),
    ("build-deb", "--dry-run"),
    ("firstboot", "--help"),
    ("first-start", "--help"),
    ("squid", "--help"),
    ("router", "--help"),
    ("gateway", "--help"),
    ("gateway-quickstart", "--dry-run", "--name", "gateway.example.net"),
    ("overlay", "--help"),
    ("throttler", "run", "--dry-run", "--policy", "tc-policies/wired-slow.toml"),
    ("router", "run", "--dry-run", "debs/files/router.toml"),
    ("squid", "run", "--dry-run", "squid/golden/gateway.toml"),
    ("gateway", "up", "--dry-run", "--settings", "debs/files/gateway.toml", "--state-directory", "results"),
    ("testbed", "up", "--dry-run"),
    ("testbed", "down", "--dry-run"),
    ("experiment", "run", "multipath", "--dry-run"),
    ("bench", "list"),
    ("setup", "--dry-run", "--dev"),
    ("demo", "--help"),
    ("check", "--help"),
    ("test", "--help"),
)


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """A clone of the user's, and their home with an environment in it.

    Not in pytest's own folder: whenever root starts another pytest, it closes that one to all others.
    """
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv, to be somebody else")
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        _fill(folder)
        yield folder


def _fill(folder: Path) -> None:
    checkout = folder / "checkout"
    checkout.mkdir()
    listed = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    packed = subprocess.run(
        ["tar", "--create", "--null", "--verbatim-files-from", "--files-from=-"],
        cwd=ROOT, input=files, check=True, capture_output=True,
    ).stdout  # fmt: skip
    subprocess.run(["tar", "--extract", "--no-same-permissions"], cwd=checkout, input=packed, check=True)
    author = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
    for command in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "--message=All"]):
        subprocess.run(["git", *command], cwd=checkout, check=True)
    subprocess.run(["chown", "--recursive", f"{USER}:{USER}", checkout], check=True)
    home = folder / "home"
    environment = home / ".cache/tributary/python"
    environment.parent.mkdir(parents=True)
    environment.symlink_to(sys.prefix)
    for each in (home, home / ".cache", home / ".cache/tributary"):
        os.chown(each, USER, USER)


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    """A folder of the user's for what is temporary, with a short name: those of Unix sockets end at 107 characters."""
    with TemporaryDirectory(dir="/tmp") as name:
        os.chown(name, USER, USER)
        yield Path(name)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_ordinary_user_runs_it(command: tuple[str, ...], clone: Path, temporary: Path) -> None:
    done = as_user(command, clone, temporary, 120)
    assert done.returncode == 0 and done.stdout, done.stderr
    assert "setup:" not in done.stderr, "nothing was to be installed"


@pytest.mark.slow
@pytest.mark.timeout(1000)  # beside builds and other tests
def test_the_unit_tests_pass_where_root_has_set_nothing_up(clone: Path, temporary: Path) -> None:
    # But for those of experiments, which draw and judge made-up readings, those in which links lose probes for made-up
    # days, and those that Hypothesis makes up inputs for: nothing in them is the machine's.
    made_up = ("tests/unit/scenarios", "tests/unit/study", "tests/unit/router/test_health.py")
    pure = (*(f"--ignore={each}" for each in made_up), "-m", "not hypothesis")
    those = ("--quiet", "--numprocesses=2", "--dist=loadfile", *pure, "tests/unit")
    done = as_user(("test", *those), clone, temporary, 900)
    assert done.returncode == 0, done.stdout[-3000:]


def as_user(
    command: tuple[str, ...], clone: Path, temporary: Path, seconds: float
) -> "subprocess.CompletedProcess[str]":
    """Run a script of the clone as its user."""
    name, *arguments = command
    become = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups")
    return subprocess.run(
        [*become, clone / "checkout/scripts" / name, *arguments],
        cwd=clone / "checkout",
        env={"HOME": str(clone / "home"), "PATH": os.environ["PATH"], "TMPDIR": str(temporary)},
        check=False,
        capture_output=True,
        text=True,
        timeout=seconds,
    )

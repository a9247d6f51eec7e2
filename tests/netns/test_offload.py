"""The tests of crates that need root, each file of them in a network namespace of its own."""

import os
import subprocess

import pytest

from tests.netns.world import needs
from tributary.paths import CACHE, ROOT

# What scripts/check has not built takes minutes.
pytestmark = [needs("cargo", "clang", "ethtool", "ip", "nft", "unshare"), pytest.mark.timeout(900)]

# With the features that scripts/check builds with: so nothing is built twice.
CARGO = (
    "bash",
    "-c",
    '. "$0" && exec cargo test --quiet --locked "${workspace[@]}" "$@"',
    str(ROOT / "scripts/setup.d/workspace"),
)
APART = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def cargo(*arguments: str, within: tuple[str, ...] = ()) -> None:
    """Run cargo test; raises AssertionError with its whole output."""
    command = (*within, *CARGO, "--manifest-path", str(ROOT / "Cargo.toml"), *arguments)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(CACHE / "cargo")}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=800)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """Not apart: crates that are missing come over the machine's network."""
    subprocess.run([ROOT / "scripts/setup.d/checkout", CACHE], check=True)
    cargo("--no-run", "--tests")


@pytest.mark.parametrize("file", ["belief", "checkpoint", "kernel", "offload", "too_long"])
def test_what_needs_root_holds(file: str) -> None:
    cargo("--offline", "--test", file, "--", "--ignored", "--test-threads=1", within=APART)


def test_what_needs_root_at_a_back_end_holds() -> None:
    cargo("--offline", "--lib", "--", "--ignored", within=APART)

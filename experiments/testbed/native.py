"""The programs of the Rust workspace converter/: the native converter, and the traffic to try it with."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from experiments.cache import CACHE
from settings.failure import Exit, Failure

_WORKSPACE = Path(__file__).parents[2] / "converter"


@dataclass(frozen=True)
class Programs:
    """Where the programs are."""

    converter: Path
    load: Path


def build() -> Programs:
    """Build what is not built yet, in the cache folder, which takes minutes the first time.

    Raises Failure: exit 69 without cargo, 71 if it does not build.
    """
    if shutil.which("cargo") is None:
        raise Failure(Exit.UNAVAILABLE, "cargo: not found (scripts/setup installs it)")
    target = CACHE / "cargo"
    command = ["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", str(_WORKSPACE / "Cargo.toml")]
    environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
    packages = ["--package", "tributary-converter", "--package", "tributary-load"]
    built = subprocess.run([*command, *packages], capture_output=True, text=True, check=False, env=environment)
    if built.returncode != 0:
        reasons = [line for line in built.stderr.splitlines() if line.startswith("error")]
        raise Failure(Exit.SYSTEM, f"{_WORKSPACE} does not build: {reasons[0] if reasons else built.stderr.strip()}")
    return Programs(target / "release" / "tributary-converter", target / "release" / "tributary-load")

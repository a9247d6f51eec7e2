"""The converter's program for an architecture: one static file that runs on every Debian.

Static, with glibc (target feature crt-static): so one build serves Debian 12 and 13, wherever it was made. What a
static glibc does badly, looking up names and users, the converter does not ask of it: it resolves names by itself.
"""

import hashlib
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from debs.release import Architecture
from tributary.places import ROOT
from tributary.settings.failure import Exit, Failure

_MANIFEST = ROOT / "converter/Cargo.toml"
_CROSS_SUITE = "trixie"  # its rustc is the oldest that the converter builds with, and it has libraries for arm64


def make(architecture: Architecture, checkout: Mapping[str, bytes], cache: Path) -> Path:
    """The program, made anew if its sources have changed; raises Failure (69, 71)."""
    if architecture.machine == platform.machine():
        return _native(architecture, cache)
    path = cache / f"converter-{architecture.name}-{_digest(_sources(checkout))}"
    if not path.exists():
        _cross(architecture, checkout, path)
    return path


def _native(architecture: Architecture, cache: Path) -> Path:
    target = architecture.rust_target
    home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    # The program names source files in its panics: not where they happened to lie.
    remaps = (f"--remap-path-prefix={ROOT}=/usr/src/tributary", f"--remap-path-prefix={home}=/usr/src/cargo")
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(cache.parent / "cargo"),
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(["-Ctarget-feature=+crt-static", *remaps]),
        "CARGO_PROFILE_RELEASE_STRIP": "symbols",  # Debian Policy 10.1
    }
    _run([str(ROOT / "scripts/setup.d/checkout"), str(cache.parent)])
    # With a target named, the flags are for the program alone: macros that rustc loads cannot be static.
    command = ["cargo", "build", "--quiet", "--locked", "--release", "--manifest-path", str(_MANIFEST)]
    _run([*command, "--package=tributary-converter", "--features=leaving", f"--target={target}"], environment)
    return cache.parent / "cargo" / target / "release/tributary-converter"


def _sources(checkout: Mapping[str, bytes]) -> dict[str, bytes]:
    crates = tuple(f"converter/{name}/" for name in ("daemon", "load", "transplant", "wire"))
    wanted = ("converter/Cargo.", *crates, "guard/", "debs/cross")
    return {path: content for path, content in checkout.items() if path.startswith(wanted)}


def _digest(files: Mapping[str, bytes]) -> str:
    hashes = "".join(f"{hashlib.sha256(content).hexdigest()} {path}\n" for path, content in files.items())
    return hashlib.sha256(hashes.encode()).hexdigest()[:16]


def _cross(architecture: Architecture, checkout: Mapping[str, bytes], path: Path) -> None:
    """In a Debian 13 of its own, by its cross compiler: debs/cross. The crates are fetched here, none in there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="cross-") as work:
        folder = Path(work)
        for name, content in _sources(checkout).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / "debs/cross").chmod(0o755)
        command = ["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", "--manifest-path"]
        _run([*command, str(folder / "converter/Cargo.toml"), str(folder / "vendor")])
        _run(mmdebstrap(architecture, folder))
        (folder / "tributary-converter").rename(path)


def mmdebstrap(architecture: Architecture, folder: Path) -> Sequence[str]:
    """The command that makes the chroot, builds in it, and brings the program out into ``folder``; no chroot stays."""
    foreign, machine = architecture.name, architecture.machine.replace("_", "-")
    native = {"amd64": "arm64", "arm64": "amd64"}[foreign]
    packages = f"cargo,rustc,gcc-{machine}-linux-gnu,libc6-dev-{foreign}-cross,libstd-rust-dev:{foreign}"
    packages += ",clang,libbpf-dev"  # for the part of it that runs in the kernel
    sources = " ".join(shlex.quote(str(folder / name)) for name in ("converter", "debs", "guard", "vendor"))
    hooks = (
        'mkdir "$1/build"',
        f"copy-in {sources} /build",
        f'chroot "$1" /build/debs/cross {architecture.rust_target}',
        f"copy-out /build/tributary-converter {shlex.quote(str(folder))}",
    )
    options = [f"--architectures={native},{foreign}", f"--include={packages}"]
    options += [f"--customize-hook={hook}" for hook in hooks]
    return ["mmdebstrap", "--quiet", "--variant=apt", *options, _CROSS_SUITE, "/dev/null"]


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    except FileNotFoundError as error:
        raise Failure(Exit.UNAVAILABLE, f"{command[0]} is missing: scripts/setup --dev installs it") from error
    try:
        _, said = process.communicate()
    except BaseException:
        # Not killed: mmdebstrap takes its chroot down, mounts and all.
        process.terminate()
        process.wait()
        raise
    if process.returncode != 0:
        raise Failure(Exit.SYSTEM, f"{command[0]}: {_reason(said.decode(errors='replace').strip().splitlines())}")


def _reason(said: Sequence[str]) -> str:
    errors = [line for line in said if line.lower().startswith(("error", "e:"))]
    return next(iter([*errors, *said]), "no reason given")

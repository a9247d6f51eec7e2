"""The Rust programs for an architecture: static files that run on every Debian.

Static, with glibc (target feature crt-static): so one build serves Debian 12 and 13, wherever it was made. What a
static glibc does badly, looking up names and users, they do not ask of it: the converter resolves names by itself.
"""

import hashlib
import platform
import shlex
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from debs.release import Architecture
from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

_CROSS_SUITE = "trixie"  # its rustc is the oldest that they build with, and it has libraries for arm64


@dataclass(frozen=True)
class Programs:
    """Programs of a package: their names, the crates that they are in, and more options of cargo."""

    names: tuple[str, ...]
    crates: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def build(self) -> tuple[str, ...]:
        """The arguments of ``cargo build`` that make them and nothing else."""
        return (*(f"--package={crate}" for crate in self.crates), "--bins", *self.options)


CONVERTER = Programs(("tributary-converter",), ("tributary-converter",), ("--features=offload",))
HANDOFF = Programs(("tributary-switch", "tributary-backend"), ("handoff-switch", "handoff-backend"))
OVERLAY = Programs(("tributary-overlay",), ("overlay-control",))
ALL = (CONVERTER, HANDOFF, OVERLAY)


def make(
    programs: Programs, architecture: Architecture, checkout: Mapping[str, bytes], cache: Path
) -> Mapping[str, Path]:
    """The programs by name, made anew if their sources have changed; raises CommandError (69, 71)."""
    if architecture.machine == platform.machine():
        return _native(programs, architecture, cache)
    of_sources = digest(sources(checkout))
    paths = {name: cache / f"{name}-{architecture.name}-{of_sources}" for name in programs.names}
    if not all(path.exists() for path in paths.values()):
        _cross(programs, architecture, checkout, paths)
    return paths


def _native(programs: Programs, architecture: Architecture, cache: Path) -> Mapping[str, Path]:
    target = architecture.rust_target
    _run([str(ROOT / "scripts/setup.d/released"), str(cache), target, *programs.build])
    return {name: cache / "cargo" / target / "release" / name for name in programs.names}


def sources(checkout: Mapping[str, bytes]) -> dict[str, bytes]:
    """All that the programs are built from, and what cargo wants to see of the workspace besides."""
    members = tomllib.loads(checkout["Cargo.toml"].decode())["workspace"]["members"]
    wanted = ("Cargo.", *(f"{member}/" for member in members), "guard/", "debs/cross")
    return {path: content for path, content in checkout.items() if path.startswith(wanted)}


def digest(files: Mapping[str, bytes]) -> str:
    """Of their names and contents."""
    hashes = "".join(f"{hashlib.sha256(content).hexdigest()} {path}\n" for path, content in files.items())
    return hashlib.sha256(hashes.encode()).hexdigest()[:16]


def _cross(
    programs: Programs, architecture: Architecture, checkout: Mapping[str, bytes], paths: Mapping[str, Path]
) -> None:
    """In a Debian 13 of its own, by its cross compiler: debs/cross. The crates are fetched here, none in there."""
    cache = next(iter(paths.values())).parent
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="cross-") as work:
        folder = Path(work)
        for name, content in sources(checkout).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / "debs/cross").chmod(0o755)
        command = ["cargo", "vendor", "--quiet", "--locked", "--versioned-dirs", "--manifest-path"]
        _run([*command, str(folder / "Cargo.toml"), str(folder / "vendor")])
        _run(mmdebstrap(programs, architecture, folder))
        for name, path in paths.items():
            (folder / name).rename(path)


def mmdebstrap(programs: Programs, architecture: Architecture, folder: Path) -> Sequence[str]:
    """The command that makes the chroot, builds in it, and brings the programs out into ``folder``; no chroot stays."""
    foreign, machine = architecture.name, architecture.machine.replace("_", "-")
    native = {"amd64": "arm64", "arm64": "amd64"}[foreign]
    packages = f"cargo,rustc,gcc-{machine}-linux-gnu,libc6-dev-{foreign}-cross,libstd-rust-dev:{foreign}"
    packages += ",clang,libbpf-dev"  # for what of them runs in the kernel
    packages += ",protobuf-compiler,libprotobuf-dev"  # for etcd's messages
    brought = ("Cargo.toml", "Cargo.lock", "converter", "experiments", "handoff", "overlay", "debs", "guard", "vendor")
    built = " ".join(f"/build/target/{architecture.rust_target}/release/{name}" for name in programs.names)
    hooks = (
        'mkdir "$1/build"',
        f"copy-in {' '.join(shlex.quote(str(folder / name)) for name in brought)} /build",
        f'chroot "$1" /build/debs/cross {architecture.rust_target} {shlex.join(programs.build)}',
        f"copy-out {built} {shlex.quote(str(folder))}",
    )
    options = [f"--architectures={native},{foreign}", f"--include={packages}"]
    options += [f"--customize-hook={hook}" for hook in hooks]
    return ["mmdebstrap", "--quiet", "--variant=apt", *options, _CROSS_SUITE, "/dev/null"]


def _run(command: Sequence[str]) -> None:
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except (FileNotFoundError, PermissionError) as error:
        raise CommandError(Exit.UNAVAILABLE, f"{command[0]} is missing: scripts/setup --dev installs it") from error
    try:
        _, said = process.communicate()
    except BaseException:
        # Not killed: mmdebstrap takes its chroot down, mounts and all.
        process.terminate()
        process.wait()
        raise
    if process.returncode != 0:
        raise CommandError(Exit.SYSTEM, f"{command[0]}: {_reason(said.decode(errors='replace').strip().splitlines())}")


def _reason(said: Sequence[str]) -> str:
    errors = [line for line in said if line.lower().startswith(("error", "e:"))]
    return next(iter([*errors, *said]), "no reason given")

"""What packages are made for, and which version they are: suites, architectures, commits. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime

from tributary.settings.errors import CommandError, Exit


@dataclass(frozen=True)
class Suite:
    """A release of Debian or Ubuntu, by what of it decides about a package."""

    name: str
    mark: str  # how versions of its packages end; the playbook looks for it (ansible/roles/tributary/vars)
    python: tuple[int, int]
    glibc: tuple[int, int]
    mptcp_sockets: bool  # systemd.socket(5) knows SocketProtocol=mptcp: systemd 254 and newer


@dataclass(frozen=True)
class Architecture:
    """A processor: as Debian, as uname(2), and as ELF (e_machine, elf(5)) call it."""

    name: str
    machine: str
    elf: int

    @property
    def rust_target(self) -> str:
        return f"{self.machine}-unknown-linux-gnu"


SUITES = {
    suite.name: suite
    for suite in (
        Suite("bookworm", "deb12", python=(3, 11), glibc=(2, 36), mptcp_sockets=False),
        Suite("trixie", "deb13", python=(3, 13), glibc=(2, 41), mptcp_sockets=True),
        Suite("noble", "ubuntu24.04", python=(3, 12), glibc=(2, 39), mptcp_sockets=True),
    )
}
ARCHITECTURES = {
    architecture.name: architecture
    for architecture in (Architecture("amd64", "x86_64", 62), Architecture("arm64", "aarch64", 183))
}


@dataclass(frozen=True)
class Commit:
    """What is checked out: the commit's hash, its time in seconds since 1970, its tags, and whether files differ."""

    hash: str
    time: int
    tags: tuple[str, ...] = ()
    modified: bool = False


@dataclass(frozen=True)
class Release:
    """One set of packages."""

    base: str  # as pyproject.toml has it
    suite: Suite
    architecture: Architecture
    commit: Commit

    @property
    def version(self) -> str:
        """As Debian writes it: '0.1.0-1~deb13' for the tag v0.1.0, else '0.1.0+git20261121.170133.abc1234-1~deb13'.

        The time stands before the hash, so that a later commit is a newer version, also on the same day. The suite's
        mark stands last, so that Debian 13's package is newer than Debian 12's (deb-version(7)).
        """
        return f"{self.base}{self._snapshot}-1~{self.suite.mark}"

    @property
    def date(self) -> datetime:
        """The commit's time: what all files in the packages carry, and the changelog."""
        return datetime.fromtimestamp(self.commit.time, UTC)

    @property
    def _snapshot(self) -> str:
        if f"v{self.base}" in self.commit.tags and not self.commit.modified:
            return ""
        modified = ".modified" if self.commit.modified else ""
        return f"+git{self.date:%Y%m%d.%H%M%S}.{self.commit.hash[:7]}{modified}"


def base_version(pyproject: dict[str, dict[str, object]], cargo: dict[str, dict[str, dict[str, object]]]) -> str:
    """The version that pyproject.toml and the Rust workspace agree on; raises CommandError (64) if they do not."""
    python, rust = pyproject["project"]["version"], cargo["workspace"]["package"]["version"]
    if python != rust:
        raise CommandError(
            Exit.USAGE, f"pyproject.toml says version {python}, Cargo.toml {rust}: they must be the same"
        )
    return str(python)

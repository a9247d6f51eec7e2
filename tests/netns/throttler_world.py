"""The throttler at links_world.py's gateway. The policy WIRED_SLOW holds wired to 5 Mbit/s from two subflows on."""

import fcntl
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.netns.links_world import GATEWAY, IPV4, IPV6, Connection, connection, end_connections
from tests.netns.world import ENVIRONMENT, Child, asked, eventually, in_namespace, on, process
from tributary.api.places import THROTTLER
from tributary.paths import ROOT

WIRED_SLOW = ROOT / "tc-policies" / "wired-slow.toml"
TEXT = WIRED_SLOW.read_text()
PATHS = '[paths.wired]\ninterface = "wired"\n[paths.wireless]\ninterface = "wireless"\n'


@pytest.fixture(params=["kernel", "sniffer"])
def source(request: pytest.FixtureRequest) -> str:
    """Both sources see the same."""
    return str(request.param)


KERNEL = pytest.mark.parametrize("source", ["kernel"])
"""For what is done with sessions, whoever has seen them."""
BOTH_VERSIONS = pytest.mark.parametrize(("source", "address", "family"), [("kernel", IPV4, 4), ("sniffer", IPV6, 6)])


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A file of WIRED_SLOW's policy that a test may change."""
    file = tmp_path / "policy.toml"
    file.write_text(TEXT)
    return file


@contextmanager
def throttler(source: str, policy: Path | str = WIRED_SLOW, *options: str) -> Iterator[Child]:
    """A throttler whose policy is a file or a text."""
    end_connections()
    with throttler_beside(source, policy, *options) as child:
        yield child


@contextmanager
def throttler_beside(source: str, policy: Path | str = WIRED_SLOW, *options: str) -> Iterator[Child]:
    """A throttler that finds the connections that are there."""
    with TemporaryDirectory() as folder:
        file = policy if isinstance(policy, Path) else Path(folder, "policy.toml")
        if isinstance(policy, str):
            file.write_text(policy)
        command = (sys.executable, "-m", "throttler", "run", "--policy", str(file), "--source", source, *options)
        with process(*in_namespace(GATEWAY, *command), stderr=subprocess.PIPE) as child:
            # Nobody reads the log before the end, and who writes into a full pipe waits.
            assert child.stderr is not None
            fcntl.fcntl(child.stderr, fcntl.F_SETPIPE_SZ, 1 << 20)
            if child.line() != "ready\n":
                pytest.fail(f"no throttler: {child.complaints()}")
            yield child


@contextmanager
def throttled(
    source: str, policy: Path | str = WIRED_SLOW, *options: str, address: str = IPV4
) -> Iterator[tuple[Child, Connection]]:
    """A throttler, and a connection of which it throttles a subflow's downloads."""
    with throttler(source, policy, *options) as child, connection(address) as client:
        eventually(lambda: elements(6 if ":" in address else 4))
        yield child, client


@contextmanager
def spare() -> Iterator[None]:
    """One more interface at the gateway, for the length of the block."""
    on(GATEWAY, "ip link add spare type veth peer name spare-peer")
    try:
        yield
    finally:
        on(GATEWAY, "ip link del spare", check=False)


def ask(*arguments: str, code: int = 0, module: str = "throttler") -> str:
    """What a throttler command in the gateway's namespace prints, on standard error if it is to be refused."""
    command = in_namespace(GATEWAY, sys.executable, "-m", module, *arguments)
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=60)
    assert result.returncode == code, result.stderr
    assert not code or result.stdout == ""
    return result.stderr if code else result.stdout


def tributary(*words: str, code: int = 0) -> str:
    """The same for ``tributary``."""
    return ask(*words, code=code, module="command")


def status() -> dict[str, Any]:
    return asked(GATEWAY, THROTTLER)


def class_statuses() -> list[dict[str, Any]]:
    return list(status()["classes"])


def elements(family: int = 4) -> list[str]:
    """The 4-tuples in the nft map."""
    text = on(GATEWAY, f"nft list map inet throttler download{family}")
    return re.findall(r"(\S+ \. \d+ \. \S+ \. \d+) : 0x5452", text)


def classes() -> list[str]:
    """The classes of held subflows, also those that are only waiting to be closed."""
    found: list[str] = re.findall(r"class htb (\S+)", on(GATEWAY, "tc class show dev wired"))
    return [name for name in found if not name.startswith("5452:f")]


def installed() -> tuple[str, str, str]:
    """Rules, qdiscs and interfaces, without what packets on their way change: references, and those that no class
    had."""
    qdiscs = re.sub(r" (refcnt|direct_packets_stat) \d+", "", on(GATEWAY, "tc qdisc show"))
    return on(GATEWAY, "nft list ruleset"), qdiscs, on(GATEWAY, "ip -br link")

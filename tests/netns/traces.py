"""What a testbed could leave on the machine."""

import subprocess
from pathlib import Path
from tempfile import gettempdir


def traces() -> dict[str, list[str]]:
    """Its namespaces, interfaces, qdiscs, nft tables, files."""
    commands = ("ip -br link", "tc qdisc show", "nft list ruleset")
    shown = {line: _printed(line).splitlines() for line in commands}
    folders = (Path("/run"), Path("/run/netns"), Path("/dev/shm"), Path(gettempdir()))
    return shown | {str(folder): sorted(path.name for path in folder.glob("trib*")) for folder in folders}


def nothing_new(before: dict[str, list[str]]) -> bool:
    """Whether all that is there was there before. What an earlier test has left may go meanwhile: the kernel takes its
    time for namespaces.
    """
    return all(set(now) <= set(before[where]) for where, now in traces().items())


def _printed(line: str) -> str:
    return subprocess.run(line.split(), capture_output=True, text=True, check=True).stdout

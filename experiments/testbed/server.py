"""The legacy web server: nginx on the server node, which speaks no MPTCP, with real files.

Run as a program with a size in bytes and a seed, this makes one of the files.
"""

import hashlib
import os
import random
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from experiments.testbed import native
from experiments.testbed.build import Testbed
from experiments.testbed.node import Node, Process
from tributary.paths import CACHE

FILES = CACHE / "files"
_CHUNK = 1 << 20
_CONFIGURATION = """\
daemon off;
user root;
pid {files}.pid;
error_log stderr error;
worker_processes {workers};
events {{ worker_connections 4096; }}
http {{
    access_log off;
{temporary}{http}}}
"""
HAPROXY_DEFAULTS = """\
defaults
    timeout connect 10s
    timeout client 1h
    timeout server 1h
"""
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@dataclass(frozen=True)
class File:
    """A file of random bytes, the same for the same seed."""

    path: Path
    size: int
    seed: int

    @cached_property
    def sha256(self) -> str:
        """The digest of all of it, made when it is asked for: of large files less is downloaded, or nobody asks."""
        return self.sha256_of(self.size)

    def sha256_of(self, size: int) -> str:
        """The digest of its first ``size`` bytes."""
        digest = hashlib.sha256()
        with self.path.open("rb") as file:
            for start in range(0, size, _CHUNK):
                digest.update(file.read(min(_CHUNK, size - start)))
        return digest.hexdigest()


def random_file(size: int, seed: int) -> File:
    """The file of ``size`` bytes of ``seed``, made in the cache folder unless it is there."""
    path = FILES / f"{size}-{seed}.bin"
    if not path.exists() or path.stat().st_size != size:
        FILES.mkdir(parents=True, exist_ok=True)
        source = random.Random(seed)
        partial = path.with_suffix(f".{os.getpid()}")
        with partial.open("wb") as output:
            for start in range(0, size, _CHUNK):
                output.write(source.randbytes(min(_CHUNK, size - start)))
        partial.replace(path)
    return File(path, size, seed)


def start_server(testbed: Testbed, files: Path) -> Process:
    """Start nginx on the server node with ``files`` as its root; raises CommandError if it does not answer in time."""
    server = testbed.server
    http = f"    sendfile on;\n    server {{ listen 80; listen [::]:80; root {server.there(files)}; }}\n"
    return start_nginx(server, "nginx", http).wait_until(lambda: server.listens(80))


def start_origin(node: Node, listen: str, *options: str) -> Process:
    """Start tributary-load's server of files of any size at an address and port; raises CommandError if it does not
    become ready.
    """
    command = native.load("origin", "--listen", listen, *options)
    return node.start(f"origin-{listen.rpartition(':')[2]}", command).wait_until_ready()


def start_nginx(node: Node, name: str, http: str, workers: str = "1") -> Process:
    """It, with this content of its http block; it may not listen yet."""
    files = node.directory / name
    temporary = "".join(f"    {kind}_temp_path {files}-{kind};\n" for kind in _TEMPORARY)
    text = _CONFIGURATION.format(files=files, workers=workers, temporary=temporary, http=http)
    return node.start(name, ["nginx", "-c", str(node.write(f"{name}.conf", text)), "-e", "stderr"])


if __name__ == "__main__":
    random_file(int(sys.argv[1]), int(sys.argv[2]))

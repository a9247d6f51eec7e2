"""Runs the playbooks' modules in the root folder of an image, by chroot(8). ansible-core has no such connection."""

import subprocess
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

DOCUMENTATION = """
name: image_root
author: The authors of Tributary
short_description: the root folder of an image
description:
  - Modules run in a folder that holds a whole system, by chroot(8), as root. Nothing of it needs to be started.
  - The folder needs Python, and what its package manager needs (/proc, /dev, a resolv.conf), put there by who made it.
options:
  root:
    description: The folder, as an absolute path.
    required: true
    vars:
      - name: tributary_image_root
"""

_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}


class Connection(ConnectionBase):
    """A folder in place of a host."""

    transport = "image_root"
    has_pipelining = True

    def _connect(self) -> "Connection":
        if not (self._root / "usr/bin/python3").exists():
            raise AnsibleConnectionFailure(f"{self._root}: accepted: the root folder of a system that has python3")
        self._connected = True
        return self

    @property
    def _root(self) -> Path:
        return Path(self.get_option("root"))

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Run ``cmd`` by the shell of the image; returns its exit code, output and errors."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        return self._inside(["/bin/sh", "-c", cmd], in_data or b"")

    def put_file(self, in_path: Any, out_path: Any) -> None:
        super().put_file(in_path, out_path)
        # By a program of the image: what is a link to /elsewhere there must not lead out of it.
        self._done(self._inside(["/bin/sh", "-c", 'cat >"$0"', str(out_path)], Path(str(in_path)).read_bytes()))

    def fetch_file(self, in_path: Any, out_path: Any) -> None:
        super().fetch_file(in_path, out_path)
        Path(str(out_path)).write_bytes(self._done(self._inside(["cat", str(in_path)])))

    def close(self) -> None:
        """There is nothing to close."""
        self._connected = False

    def _inside(self, command: list[str], given: bytes = b"") -> tuple[int, bytes, bytes]:
        run = ["chroot", str(self._root), *command]
        done = subprocess.run(run, input=given, capture_output=True, check=False, env=_ENVIRONMENT)
        return done.returncode, done.stdout, done.stderr

    @staticmethod
    def _done(result: tuple[int, bytes, bytes]) -> bytes:
        code, output, errors = result
        if code != 0:
            raise AnsibleConnectionFailure(f"a file could not be copied: {errors.decode(errors='replace').strip()}")
        return output

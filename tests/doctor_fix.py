"""The program that fixes on request, started for each connection as systemd does it (systemd.socket(5), Accept=yes)."""

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.netns.world import eventually, process
from tributary.api.places import FIXES
from tributary.paths import ROOT

PROGRAM = [sys.executable, "-m", "doctor.on_request"]
_UNIT = (ROOT / "console/systemd/tributary-doctor-fix@.service").read_text()
_KEPT = [f"+{name.lower()}" for name in re.findall(r"CAP_(\w+)", _UNIT)]
CONFINED = ["setpriv", "--no-new-privs", "--bounding-set", ",".join(["-all", *_KEPT])]
"""With the powers of its unit."""


def asked(request: bytes, *within: str) -> Any:
    """The answer to a request by a socket; ``within`` are words before the command."""
    own, other = socket.socketpair()
    with own, other:
        started = subprocess.Popen([*within, *PROGRAM], cwd=ROOT, stdin=other.fileno(), stdout=subprocess.DEVNULL)
        other.close()
        own.settimeout(60)
        own.sendall(request)
        with own.makefile("rb") as answers:
            answer = json.loads(answers.read())
        assert started.wait(20) == 0
    return answer


@contextmanager
def listening(within: Sequence[str]) -> Iterator[None]:
    """systemd's own program listens where the unit says, and starts ours for each connection."""
    command = ("systemd-socket-activate", "--accept", "--inetd", f"--listen={FIXES}", *within, *CONFINED, *PROGRAM)
    with process(*command, stderr=subprocess.DEVNULL):
        eventually(FIXES.is_socket)
        try:
            yield
        finally:
            FIXES.unlink()

"""What goes into a guest, and what its script said."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from image.firstboot.settings import Role
from tests.unit.image.firstboot.systems import facts, files_of

SHELL = r"""
# until_true COMMAND: wait for it, for a minute and a half at most, and say so if it never is.
until_true() {
    for _ in $(seq 300); do if eval "$1" >/dev/null 2>&1; then return; fi; sleep 0.2; done
    echo "never: $1"
}
# said NAME COMMAND...: print what the command prints, for section().
said() { echo "BEGIN $1"; shift; "$@" 2>&1; echo; echo "END"; }
"""


def write(path: Path, text: str, mode: int) -> None:
    """A file of the guest's root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def write_card(root: Path, card: str, **known: object) -> None:
    """The files that the card of a home router comes to."""
    for each in files_of(card, facts(Role.ROUTER, **known)):
        write(root / each.path.lstrip("/"), each.text, each.mode)


def section(console: str, name: str) -> str:
    """What the command printed."""
    found = re.search(rf"BEGIN {name}\n(.*?)\n?END( {name})?\n", console, re.DOTALL)
    assert found is not None, f"the guest printed no {name}"
    return found[1].strip()


def addresses(console: str, name: str) -> Iterable[dict[str, Any]]:
    """What ip(8) showed as JSON."""
    return [each for interface in json.loads(section(console, name)) for each in interface["addr_info"]]

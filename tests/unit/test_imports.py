"""Which room may import from which, and that no two modules import each other."""

import ast
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import golden
from tributary.paths import ROOT

BELOW: dict[str, set[str]] = {
    "tributary": set(),
    "throttler": {"tributary"},
    "squid": {"tributary"},
    "router": {"tributary"},
    # One list says what clients of any kind do not reach, and one reader reads it.
    "gateway": {"tributary", "squid.targets", "squid.values"},
    "doctor": {"tributary"},
    "debs": {"tributary"},
    # A card says how routers find a gateway, and the console's password, in the words of these parts' own settings. The
    # first-start page is served, guarded and read as the console is.
    "image": {
        *("tributary", "squid", "debs", "gateway.settings"),
        *(f"console.{name}" for name in ("password", "requests", "settings", "web")),
    },
    "overlay": {"tributary"},
    # It asks each program in that program's own words, and shows the answers in those of tributary/api.
    "command": {"tributary", "throttler", "router", "gateway", "squid.settings", "doctor"},
    # It shows and does what the command does.
    "console": {"tributary", "command"},
    # The throttler is asked at its socket and read by its own types, chains are asked for where they are computed,
    # agents are what the control plane builds, a home router's files are a card's, sessions begin on the link that a
    # router takes; all else is by users' commands.
    "experiments": {
        *("tributary", "throttler.service.status", "overlay.control", "overlay.programs", "router.links.quickest"),
        *(f"image.firstboot.{name}" for name in ("actions", "firewall", "home", "reading", "settings")),
    },
}
"""The rooms, and what each stands on."""

PAGE = ROOT / "docs/architecture.md"


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for room in BELOW for path in (ROOT / room).rglob("*.py")}


def imported(path: Path) -> set[str]:
    """The project's modules that the file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & MODULES.keys()


IMPORTS = {name: imported(path) - {name} for name, path in MODULES.items()}


def test_the_rooms_are_there() -> None:
    assert {name.split(".")[0] for name in MODULES} == BELOW.keys()


@pytest.mark.parametrize("room", BELOW)
def test_a_room_imports_from_those_below_it_alone(room: str) -> None:
    allowed = {room, *BELOW[room]}
    wrong = {
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        if name.split(".")[0] == room
        for other in others
        if not any(other == each or other.startswith(f"{each}.") for each in allowed)
    }
    assert not wrong


def test_no_module_imports_itself_by_way_of_others() -> None:
    TopologicalSorter(IMPORTS).prepare()


def picture() -> str:
    """The rooms, by who imports whom, as Mermaid draws it."""
    rooms = {(name.split(".")[0], other.split(".")[0]) for name, others in IMPORTS.items() for other in others}
    return "".join(f"    {room} --> {other}\n" for room, other in sorted(rooms) if room != other)


def test_the_architectures_picture_is_the_code() -> None:
    """REMAKE_GOLDEN=1 scripts/python -m pytest tests/unit/test_imports.py draws it anew."""
    before, found, rest = PAGE.read_text().partition("```mermaid\ngraph TD\n")
    assert found
    _, end, after = rest.partition("```\n")
    golden.compare(PAGE, before + found + picture() + end + after)


USE = "use crate::"


def uses(source: Path) -> dict[str, set[str]]:
    """The crate's files below ``source``, and those that each of them names with ``use crate::``."""
    files = {"/".join(path.relative_to(source).with_suffix("").parts): path for path in source.rglob("*.rs")}
    known = {name.removesuffix("/mod"): name for name in files}
    found: dict[str, set[str]] = defaultdict(set)
    for name, path in files.items():
        for line in path.read_text().splitlines():
            if line.startswith(USE):
                words = line.removeprefix(USE).split("::")
                words = [word.strip(";{} ,").split(",")[0] for word in words]
                targets = ("/".join(words[:count]) for count in range(len(words), 0, -1))
                found[name] |= {known[each] for each in [next((each for each in targets if each in known), "")] if each}
        found[name].discard(name)
    return found


def test_no_file_of_the_converter_uses_itself_by_way_of_others() -> None:
    graph = uses(ROOT / "converter/proxy/src")
    assert len(graph) > 50
    TopologicalSorter(graph).prepare()

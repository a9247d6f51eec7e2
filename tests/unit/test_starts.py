"""How programs start: without the libraries that only a part of what they do needs."""

import subprocess
import sys

import pytest

from command import cli

LIBRARIES = (
    *("cryptography", "jinja2", "matplotlib", "numpy", "pandas", "prometheus_client", "pydantic", "pyroute2.iproute"),
    *("rich", "scapy", "scipy", "segno", "starlette", "uvicorn"),
)
"""Those that take long to load; of pyroute2 what is more than messages."""

OTHERS_NEED = {"doctor.examination", "gateway.enrolment", "command.remote", "command.tables", "tributary.api.console"}
"""Of this project, what most commands of ``tributary`` start without."""

COMMANDS = {
    "command.cli": {"pydantic"},
    "console.cli": {"pydantic"},
    "doctor.__main__": set(),
    "gateway.cli": {"pydantic"},
    "overlay.__main__": set(),
    "overlay.reader.cli": set(),
    "router.cli": {"pydantic"},
    "squid.__main__": {"pydantic"},
    "throttler.cli": set(),
}
"""What may be loaded once a program has read its command line."""
DAEMONS = {
    "console.server": {"pydantic", "starlette", "uvicorn"},
    "gateway.service": {"pydantic"},
    "overlay.reader.service": {"pydantic"},
    "router.daemon": {"pydantic"},
    "throttler.service.start, throttler.sources.kernel": {"pydantic"},
}
"""What may be loaded where a daemon runs, unless its settings ask for more."""


@pytest.mark.parametrize(
    ("start", "may"),
    [
        *(
            (f"import {module} as it; getattr(it, 'parser', lambda: it.main)()", may | OTHERS_NEED)
            for module, may in COMMANDS.items()
        ),
        *((f"import {modules}", may | OTHERS_NEED) for modules, may in DAEMONS.items()),
        ("from command import cli; cli.parser(quick=True)", {"pydantic"}),
    ],
)
def test_a_start_loads_no_more_than_it_needs(start: str, may: set[str]) -> None:
    script = f"{start}; import sys; print(*sys.modules.keys() & {OTHERS_NEED.union(LIBRARIES)})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= may


def test_each_command_is_there_either_way() -> None:
    every, quick = (cli.parser(quick=quick).format_help() for quick in (False, True))
    assert [name for name in cli._QUICK if f"\n    {name} " not in quick] == []
    for name in ("routers", "enrol", "rotate", "revoke", "forward", "doctor"):
        assert f"\n    {name} " in every

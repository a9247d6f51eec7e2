"""How programs start: without the libraries that only a part of what they do needs."""

import subprocess
import sys

import pytest

LIBRARIES = (
    *("cryptography", "jinja2", "matplotlib", "numpy", "pandas", "prometheus_client", "pydantic", "pyroute2.iproute"),
    *("rich", "scapy", "scipy", "segno", "starlette", "uvicorn"),
)
"""Those that take long to load; of pyroute2 what is more than messages."""

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
            (f"import {module} as it; getattr(it, 'parser', lambda: it.main)()", may)
            for module, may in COMMANDS.items()
        ),
        *((f"import {modules}", may) for modules, may in DAEMONS.items()),
        ("from command import cli; cli.parser(quick=True)", {"pydantic"}),
    ],
)
def test_a_start_loads_no_more_than_it_needs(start: str, may: set[str]) -> None:
    script = f"{start}; import sys; print(*sys.modules.keys() & {set(LIBRARIES)})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= may

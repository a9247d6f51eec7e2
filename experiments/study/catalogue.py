"""Every experiment, in the order in which a reader wants them; and those that people have in files of their own."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tributary.settings.failure import Exit, Failure

if TYPE_CHECKING:
    from experiments.study.scenario import Scenario

_NAMES = (
    "legacy",
    "multipath",
    "buffer",
    "mtu",
    "throttle-first",
    "throttle-again",
    "throttle-long",
    "conversion-delay",
    "grid",
    "failover",
    "latency",
    "integrity",
    "acceleration",
    "acceleration-off-path",
    "acceleration-buffer",
    "acceleration-setup",
    "acceleration-start",
    "overlay-paths",
)


class Catalogue(Mapping[str, "Scenario[Any]"]):
    """The project's experiments by their names. One is imported when it is looked up: plots take a second to load."""

    def __getitem__(self, name: str) -> "Scenario[Any]":
        if name not in _NAMES:
            raise KeyError(name)
        found: Scenario[Any] = import_module(f"experiments.scenarios.{name.replace('-', '_')}").SCENARIO
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_NAMES)

    def __len__(self) -> int:
        return len(_NAMES)


SCENARIOS = Catalogue()


def is_file(name: str) -> bool:
    """Whether ``name`` is meant as a file with an experiment in it."""
    return name.endswith(".py")


def from_file(path: Path) -> "Scenario[Any]":
    """The ``SCENARIO`` of a Python file. Raises Failure: exit 66 if it cannot be read, 64 if it has none."""
    from experiments.study.scenario import Scenario

    accepted = "accepted: a file that says SCENARIO = Scenario(...); scripts/experiment new NAME writes one"
    if not path.is_file():
        raise Failure(Exit.NO_INPUT, f"{path}: cannot be read: no such file")
    spec = spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None and spec.loader is not None, "a name that ends in .py has a loader"
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except OSError as error:
        raise Failure(Exit.NO_INPUT, f"{path}: cannot be read: {error}") from error
    except (Exception, SystemExit) as error:
        at = f", line {_line(error, path)}" if _line(error, path) else ""
        raise Failure(Exit.USAGE, f"{path}{at}: {type(error).__name__}: {error}: {accepted}") from error
    found = getattr(module, "SCENARIO", None)
    if not isinstance(found, Scenario):
        raise Failure(Exit.USAGE, f"{path}: has no SCENARIO: {accepted}")
    if found.name in SCENARIOS:
        raise Failure(Exit.USAGE, f"{path}: name = {found.name!r}: accepted: a name that no experiment here has")
    return found


def _line(error: BaseException, path: Path) -> int:
    """The last line of the file that led to ``error``; 0 if none did."""
    if isinstance(error, SyntaxError):
        return error.lineno or 0
    line, trace = 0, error.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line

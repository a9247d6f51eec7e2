"""Every experiment and benchmark, in the order in which a reader wants them; and those in files of people's own."""

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from tributary.paths import ROOT
from tributary.settings.errors import CommandError, Exit

if TYPE_CHECKING:
    from experiments.study.experiment import Experiment

_EXPERIMENTS = """
    legacy multipath shared-bottleneck buffer delays mtu buffer-mtu
    throttle-first throttle-again throttle-long throttle-midway conversion-delay
    grid never-below never-below-loads failover latency integrity
    acceleration acceleration-off-path acceleration-buffer acceleration-setup acceleration-start
    overlay-paths overlay-transfer overlay-leave overlay-faults
    handoff-sizes handoff-backends handoff-scale handoff-faults home
"""
_BENCHMARKS = """
    enforcement converter converter-growth throttler-scale queueing-delay converter-soak
    acceleration-instances acceleration-one-core accuracy overlay overlay-on-demand overlay-node-out
    offload offload-soak handoff-soak console steered
"""


@dataclass(frozen=True)
class Catalogue(Mapping[str, "Experiment"]):
    """Experiments by their names. One is imported from its module when it is looked up: plots take a second to load."""

    modules: Mapping[str, str]

    def __getitem__(self, name: str) -> "Experiment":
        found = _experiment(import_module(self.modules[name]))
        assert found is not None, f"{self.modules[name]} has an experiment"
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)


def _in(room: str, names: str, prefix: str = "") -> Catalogue:
    return Catalogue({f"{prefix}{name}": f"experiments.{room}.{name.replace('-', '_')}" for name in names.split()})


SCENARIOS = _in("scenarios", _EXPERIMENTS)
BENCHMARKS = _in("bench", _BENCHMARKS, prefix="bench-")
EVERYTHING = Catalogue({**SCENARIOS.modules, **BENCHMARKS.modules})


def _experiment(module: ModuleType) -> "Experiment | None":
    """The last one that the module makes, as it is by default; the module's docstring is about it."""
    from experiments.study.experiment import Experiment

    classes = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Experiment)]
    own = [each for each in classes if each.__module__ == module.__name__]
    if not own:
        return None
    own[-1].about = module.__doc__ or ""
    return own[-1]()


def is_file(name: str) -> bool:
    """Whether ``name`` is meant as a file with an experiment in it."""
    return name.endswith(".py")


def from_file(path: Path) -> "Experiment":
    """That of a Python file. Raises CommandError: exit 66 if it cannot be read, 64 if it has none."""
    accepted = "accepted: a file that says class NAME(Experiment); scripts/experiment new NAME writes one"
    if not path.is_file():
        raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: no such file")
    spec = spec_from_file_location(path.stem.replace("-", "_").replace(".", "_"), path)
    assert spec is not None and spec.loader is not None, "a name that ends in .py has a loader"
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found = _experiment(module)
    except (Exception, SystemExit) as error:
        line = _line(error, path)
        if isinstance(error, OSError) and not line:
            raise CommandError(Exit.NO_INPUT, f"{path}: cannot be read: {error}") from error
        at = f", line {line}" if line else ""
        raise CommandError(Exit.USAGE, f"{path}{at}: {type(error).__name__}: {error}: {accepted}") from error
    if found is None:
        raise CommandError(Exit.USAGE, f"{path}: has no experiment: {accepted}")
    if not hasattr(found, "claim"):
        raise CommandError(Exit.USAGE, f'{path}: {type(found).__name__} has no claim: accepted: claim = "..."')
    if found.name in EVERYTHING:
        raise CommandError(Exit.USAGE, f"{path}: name = {found.name!r}: accepted: a name that no experiment here has")
    type(found).files = _digests(path)
    return found


def _digests(path: Path) -> dict[str, str]:
    """Of the file and of the modules that are loaded from neither this checkout nor the Python environment: its own."""
    ours = (ROOT, Path(sys.prefix), Path(sys.base_prefix), Path(os.__file__).parent)
    loaded = {Path(file) for module in [*sys.modules.values()] if (file := getattr(module, "__file__", None))}
    own = {each.absolute() for each in loaded if not any(each.is_relative_to(place) for place in ours)}
    files = sorted({path.absolute(), *(each for each in own if each.suffix == ".py")})
    return {str(each): hashlib.sha256(each.read_bytes()).hexdigest()[:12] for each in files}


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

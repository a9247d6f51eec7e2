"""Which wheels are bundled, for which target, and in whose words pip is told."""

from importlib import metadata

from packaging.utils import canonicalize_name

from debs import parts, wheels
from tests.refusals import command_error
from tests.unit.debs.sample import imported, release
from tributary.paths import ROOT
from tributary.settings.errors import Exit

LOCK = (ROOT / "requirements.lock").read_text()

SMALL = """\
one==1.0 \\
    --hash=sha256:11 \\
    --hash=sha256:12
two==2.0 ; python_full_version < '3.12' \\
    --hash=sha256:20
two==2.5 ; python_full_version >= '3.12' \\
    --hash=sha256:25
"""


def test_pip_is_given_exact_versions_for_the_target_with_all_their_hashes() -> None:
    def pinned(suite: str) -> list[str]:
        return [str(pin) for pin in wheels.selected(SMALL, ["two"], wheels.environment(release(suite)))]

    assert (pinned("bookworm"), pinned("trixie")) == (["two==2.0"], ["two==2.5"])
    chosen = wheels.selected(SMALL, ["two", "one"], wheels.environment(release()))
    assert wheels.requirements(chosen) == ("one==1.0 --hash=sha256:11 --hash=sha256:12\ntwo==2.5 --hash=sha256:25\n")
    with command_error(Exit.USAGE, "requirements.lock has no three"):
        wheels.selected(SMALL, ["three"], wheels.environment(release()))


def test_what_a_library_needs_comes_with_it_unless_another_target_needs_it() -> None:
    needs = {"a": ["b>=1 ; sys_platform == 'win32'", "C_c"], "c-c": ["d ; extra == 'fast'", "a"]}
    found = wheels.closure(["a"], lambda name: needs.get(name, []), wheels.environment(release()))
    assert found == {"a", "c-c"}


def test_the_experiments_libraries_stay_out_and_all_that_the_parts_import_is_bundled() -> None:
    names = {pin.name for pin in wheels.chosen(LOCK, release())}
    assert {"pydantic", "pydantic-core", "markupsafe", "scapy"} <= names
    assert not names & {"matplotlib", "numpy", "pillow", "pytest", "mypy"}
    modules = set().union(*(imported(part) for part in parts.MODULES))
    distributions = metadata.packages_distributions()
    used = {canonicalize_name(name) for module in modules for name in distributions.get(module, [])}
    assert used <= {pin.name for pin in wheels.chosen(LOCK, release())}
    assert set(wheels.ROOTS) <= used


def test_each_release_and_processor_has_the_same_wheels() -> None:
    chosen = [
        [str(pin) for pin in wheels.chosen(LOCK, release(suite, architecture))]
        for suite in ("bookworm", "trixie")
        for architecture in ("amd64", "arm64")
    ]
    assert all(each == chosen[0] for each in chosen)

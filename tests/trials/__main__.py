"""Runs the trials by number: scripts/python -m tests.trials [T17 ...]. Those of the kernel need root."""

import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from tributary.paths import ROOT

Trials = Mapping[str, Mapping[str, Any]]


def trials() -> Trials:
    """What was tried, and the tests that say what is right, by number."""
    return tomllib.loads(Path(__file__).with_name("trials.toml").read_text())


def main(numbers: Sequence[str]) -> int:
    """Run the tests of ``numbers``, or of all; prints a line for each. Returns 1 if one failed, 64 for a wrong one."""
    every = trials()
    if unknown := [number for number in numbers if number not in every]:
        print(f"trials: {', '.join(unknown)}: accepted: T1 to T{len(every)}", file=sys.stderr)
        return 64
    chosen = {number: every[number] for number in numbers or every}
    outcomes = _outcomes([test for each in chosen.values() for test in each["tests"] if ".py::" in test])
    failed = 0
    for number, each in chosen.items():
        results = [outcomes.get(test, "cargo test") for test in each["tests"]]
        failed += any(result not in ("passed", "cargo test") for result in results)
        print(f"{number:4} {', '.join(sorted(set(results))):22} {each['what']}")
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


def _outcomes(tests: Sequence[str]) -> dict[str, str]:
    """What became of each test; of one with parameters, the worst. Those of commands run on the machine as it is."""
    whole = [test for test in tests if test.startswith("tests/commands/")]
    found = _run([test for test in tests if test not in whole], "--apart") | _run(whole)
    return {test: found.get(test, "did not run") for test in tests}


def _run(tests: Sequence[str], *options: str) -> dict[str, str]:
    if not tests:
        return {}
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "--numprocesses=2", *options, f"--junit-xml={report}", *tests]
        subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
        found: dict[str, str] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            name = case.attrib["name"].partition("[")[0]
            test = f"{case.attrib['classname'].replace('.', '/')}.py::{name}"
            result = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
            if found.get(test, "passed") == "passed":
                found[test] = result
        return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

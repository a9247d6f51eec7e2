"""What these tests share: ansible-playbook run for real, on this machine alone, and the Python among the roles."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tributary.paths import ROOT

HERE = Path(__file__).parent
ANSIBLE = ROOT / "ansible"
INVENTORIES = ("one", "fleet", "routers", "handoff")
ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir())

# Beside the Python that runs the tests, or the system's.
_PROGRAM = shutil.which("ansible-playbook", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
needs_ansible = pytest.mark.skipif(_PROGRAM is None, reason="ansible-core is not installed")


def play(playbook: Path, inventory: str, scratch: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``playbook`` on ``inventory``, an example's name or a path; its own files are in ``scratch``."""
    source = ANSIBLE / "inventory" / f"{inventory}.yml" if inventory in INVENTORIES else inventory
    command: Sequence[str] = [program(), "-i", str(source), str(playbook), *options]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=environment_in(scratch), cwd=scratch
    )


def script(program: Path, text: str) -> None:
    """A program that is a shell script."""
    program.write_text(f"#!/bin/sh\n{text}")
    program.chmod(0o755)


def program() -> str:
    """ansible-playbook's path."""
    return str(_PROGRAM)


def environment_in(scratch: Path) -> Mapping[str, str]:
    """For Ansible, whose own files are in ``scratch``."""
    return os.environ | {
        "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(ANSIBLE / "roles"),
        "ANSIBLE_FILTER_PLUGINS": str(ANSIBLE / "filter_plugins"),
        "ANSIBLE_LOCAL_TEMP": str(scratch / "local"),
        "ANSIBLE_REMOTE_TEMP": str(scratch / "remote"),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }


def load(path: Path) -> ModuleType:
    """A Python file that lies among playbooks, as a module."""
    found = importlib.util.spec_from_file_location(path.stem, path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module

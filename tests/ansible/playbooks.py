"""What these tests share: ansible-playbook run for real, on this machine alone, and the Python among the roles."""

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import jinja2
import pytest

from tributary.paths import ROOT

HERE = Path(__file__).parent
ANSIBLE = ROOT / "ansible"
INVENTORIES = ("one", "fleet", "routers", "handoff")
ROLES = sorted(path.name for path in (ANSIBLE / "roles").iterdir())
APT, COPY, SHELL, TEMPLATE = (f"ansible.builtin.{each}" for each in ("apt", "copy", "shell", "template"))
NOTHING = {"changed": False}

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


def _yaml() -> Any:
    return pytest.importorskip("yaml", reason="PyYAML, which comes with ansible-core, is not installed")


def read(path: Path) -> Any:
    return _yaml().safe_load(path.read_text())


def every_task(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Also those in blocks."""
    for task in tasks:
        yield task
        yield from every_task(task.get("block", []))


def task_of(role: str, file: str, name: str = "", by: str = "name") -> dict[str, Any]:
    """The only one of a role's file that has this in its ``name``, and that goes ``by`` this module."""
    tasks = every_task(read(ANSIBLE / f"roles/{role}/tasks/{file}.yml"))
    (task,) = (each for each in tasks if name in each.get("name", "") and by in each)
    return task


def holds(task: dict[str, Any], **said: object) -> bool:
    """Whether a task runs where these are the variables."""
    when = task["when"]
    environment = jinja2.Environment()
    environment.tests["changed"] = lambda result: result["changed"]
    return all(environment.compile_expression(each)(**said) for each in ([when] if isinstance(when, str) else when))


def evaluated(template: str, **variables: Any) -> Any:
    """What a template that is one expression gives."""
    return jinja2.Environment().compile_expression(template.strip().removeprefix("{{").removesuffix("}}"))(**variables)


def play_task(
    task: dict[str, Any], said: dict[str, Any], inventory: str, scratch: Path
) -> subprocess.CompletedProcess[str]:
    """Run one task of a role by itself on the inventory's first host, with these variables."""
    of_it = {"hosts": "all[0]", "gather_facts": False, "connection": "local", "vars": said, "tasks": [task]}
    (scratch / "task.yml").write_text(_yaml().safe_dump([of_it], width=10**6))
    return play(scratch / "task.yml", inventory, scratch)


def judged(done: subprocess.CompletedProcess[str], is_refused: bool, complaint: str) -> None:
    """A run ended with the complaint, or well and without it."""
    said = " ".join(done.stdout.split())
    assert (done.returncode, complaint in said) == ((2, True) if is_refused else (0, False)), done.stdout + done.stderr

"""Experiments on real machines: which can, what they are refused, and how they come to stand there."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from experiments.hosts.settings import HostsSettings
from experiments.hosts.testbed import Hosts
from experiments.study.axes import AXES
from experiments.study.blueprint import Blueprint, TestbedBlueprint
from experiments.study.catalogue import SCENARIOS
from experiments.study.experiment import Experiment
from experiments.study.order import Place
from experiments.testbed.build import Testbed
from experiments.testbed.topology import Profile, Topology
from tributary.settings.errors import CommandError, Exit, invalid_value


def able(experiments: Sequence[Experiment], changes: Sequence[str], sweeps: Sequence[str]) -> list[Experiment]:
    """Those of ``experiments`` that take links as they are.

    Raises CommandError (64) if none does, and for ``changes`` (--set) and ``sweeps`` (--sweep) of links.
    """
    found = [each for each in experiments if each.real_links]
    if not found:
        names = ", ".join(each.name for each in experiments)
        accepted = ", ".join(name for name, each in SCENARIOS.items() if each.real_links)
        raise CommandError(Exit.USAGE, f"--hosts: {names}: makes its links itself: accepted: {accepted}")
    for option, each in (*(("--set", change) for change in changes), *(("--sweep", sweep) for sweep in sweeps)):
        key, _, value = each.partition("=")
        if "." in key and not key.startswith("net."):
            accepted = "options of the experiment" if option == "--set" else f"{', '.join(AXES)}, net.NAME"
            raise invalid_value(option, key, value, f"{accepted}: links of --hosts are as they are")
    return found


def place(settings: HostsSettings, hosts: Hosts | None = None) -> Place:
    """That with the links and addresses of ``settings``, on ``hosts`` once they are connected."""

    def stands(name: str, profile: Profile, _seed: int) -> AbstractContextManager[Testbed]:
        assert hosts is not None, "nothing stands in a dry run"
        return hosts.standing(name, profile)

    def on_them(blueprint: Blueprint) -> TestbedBlueprint:
        if not isinstance(blueprint, TestbedBlueprint):
            raise CommandError(Exit.USAGE, "--hosts: accepted: for experiments on a testbed alone")
        return replace(blueprint, stands=stands)

    return Place(lambda profile: settings.placed(Topology.of(profile)), on_them, hosts.as_json() if hosts else {})

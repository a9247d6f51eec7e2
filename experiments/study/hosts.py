"""Experiments on real machines: which can, what they are refused, and how they come to stand there."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from experiments.hosts.settings import HostsSettings
from experiments.hosts.testbed import Hosts
from experiments.study.axes import AXES
from experiments.study.blueprint import Stands, TestbedBlueprint
from experiments.study.catalogue import SCENARIOS
from experiments.study.scenario import Scenario
from experiments.testbed.build import Testbed
from experiments.testbed.topology import Profile
from tributary.settings.errors import CommandError, Exit, invalid_value


def able(scenarios: Sequence[Scenario[Any]], changes: Sequence[str], sweeps: Sequence[str]) -> list[Scenario[Any]]:
    """Those of ``scenarios`` that take links as they are.

    Raises CommandError (64) if none does, and for ``changes`` (--set) and ``sweeps`` (--sweep) of links.
    """
    found = [scenario for scenario in scenarios if scenario.real_links]
    if not found:
        names = ", ".join(scenario.name for scenario in scenarios)
        accepted = ", ".join(name for name, scenario in SCENARIOS.items() if scenario.real_links)
        raise CommandError(Exit.USAGE, f"--hosts: {names}: makes its links itself: accepted: {accepted}")
    for option, each in (*(("--set", change) for change in changes), *(("--sweep", sweep) for sweep in sweeps)):
        key, _, value = each.partition("=")
        if "." in key and not key.startswith("net."):
            accepted = "options of the experiment" if option == "--set" else f"{', '.join(AXES)}, net.NAME"
            raise invalid_value(option, key, value, f"{accepted}: links of --hosts are as they are")
    return found


def placed(settings: HostsSettings, scenario: Scenario[Any], hosts: Hosts | None = None) -> Scenario[Any]:
    """``scenario`` with the links and addresses of ``settings``, on ``hosts`` once they are connected."""

    def stands(name: str, profile: Profile, _seed: int) -> AbstractContextManager[Testbed]:
        assert hosts is not None, "nothing stands in a dry run"
        return hosts.standing(name, profile)

    return replace(
        scenario,
        points=lambda options, topology: scenario.points(options, settings.placed(topology)),
        blueprint=lambda *about: _on(scenario.blueprint(*about), stands),
        judge=lambda options, topology, readings: scenario.judged(options, settings.placed(topology), readings),
        hosts=hosts.as_json() if hosts else {},
    )


def _on(place: object, stands: Stands) -> TestbedBlueprint:
    if not isinstance(place, TestbedBlueprint):
        raise CommandError(Exit.USAGE, "--hosts: accepted: for experiments on a testbed alone")
    return replace(place, stands=stands)

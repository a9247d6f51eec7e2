"""What ``--set`` of ``experiment run`` changes: options of the scenarios that run, and their links."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.study.axes import swept
from experiments.study.order import Order
from experiments.study.scenario import Scenario
from experiments.testbed.profile import changed_profile
from experiments.testbed.topology import Profile
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.files import check, read


def orders(
    scenarios: Sequence[Scenario[Any]],
    changes: Sequence[str],
    quick: bool = False,
    repeat: int | None = None,
    sweeps: Sequence[str] = (),
    profile: Profile | None = None,
) -> list[Order]:
    """What to do for each of ``scenarios``, at all combinations of ``sweeps`` such as ``mtu=1500,1000``.

    A change such as ``size=20MB`` applies to those that have its key. The links are each one's own, or ``profile``.

    Raises CommandError with exit 64 for a key that none of them has, and for a value that one of them does not accept,
    and with 66 for a profile that cannot be read.
    """
    for change in changes:
        if not any(_has(scenario, change) for scenario in scenarios):
            raise _unknown(scenarios, change)
    return [
        _order(scenario, [change for change in changes if _has(scenario, change)], quick, repeat, sweeps, profile)
        for scenario in scenarios
    ]


def over(profile: Path, scenarios: Sequence[Scenario[Any]]) -> list[Scenario[Any]]:
    """``scenarios`` over the links of ``profile``, but for those that have links of their own.

    Raises CommandError with exit 64 if that is all of them.
    """
    if not any(scenario.any_links for scenario in scenarios):
        names = ", ".join(scenario.name for scenario in scenarios)
        raise CommandError(
            Exit.USAGE, f"--profile {profile}: {names}: accepted: the links of its own, changed by --set"
        )
    return [
        replace(scenario, profile=profile, quick_links=()) if scenario.any_links else scenario for scenario in scenarios
    ]


def _has(scenario: Scenario[Any], change: str) -> bool:
    """Whether the option, or the link, is one of this scenario's."""
    link, dot, _ = _key(change).partition(".")
    return link in (_links(scenario) if dot else scenario.options.model_fields)


def _key(change: str) -> str:
    key, equals, _ = change.partition("=")
    if not equals:
        raise CommandError(Exit.USAGE, f"--set {change}: accepted: KEY=VALUE, such as size=20MB")
    return key


def _links(scenario: Scenario[Any]) -> Iterable[str]:
    return read(scenario.profile)["links"].keys()  # type: ignore[no-any-return]


def _unknown(scenarios: Sequence[Scenario[Any]], change: str) -> CommandError:
    key, _, value = change.partition("=")
    if "." in key:
        links = dict.fromkeys(link for scenario in scenarios for link in _links(scenario))
        return invalid_value("--set", key, value, f"one of the links {', '.join(links)}")
    keys = {key for scenario in scenarios for key in scenario.options.model_fields}
    return invalid_value("--set", key, value, f"one of the keys {', '.join(sorted(keys))}")


def _order(
    scenario: Scenario[Any],
    changes: Sequence[str],
    quick: bool,
    repeat: int | None,
    sweeps: Sequence[str],
    profile: Profile | None,
) -> Order:
    document: dict[str, Any] = dict(scenario.quick) if quick else {}
    for change in changes:
        key, _, value = change.partition("=")
        if "." not in key:
            document[key] = _read(value)
    if repeat is not None:
        document["repeat"] = repeat
    links = [*(scenario.quick_links if quick else ()), *(each for each in changes if "." in each.partition("=")[0])]
    options = check(document, scenario.options, f"{scenario.name}: --set")
    profile = profile or changed_profile(scenario.profile, links)
    if len(profile.links) < scenario.least_links:
        names = ", ".join(profile.links)
        accepted = f"a profile of {scenario.least_links} links or more"
        raise CommandError(Exit.USAGE, f"{scenario.name}: links: {names}: accepted: {accepted}")
    order = Order(swept(scenario, profile, sweeps), options, profile)
    order.blueprint(order.points[0])  # refused now, and not in the middle of a run
    return order


def _read(value: str) -> bool | int | float | str:
    """What is written: ``true``, ``false``, a number, or else text."""
    if value in ("true", "false"):
        return value == "true"
    for number in (int, float):
        try:
            return number(value)
        except ValueError:
            continue
    return value

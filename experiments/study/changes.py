"""What a command line asks of experiments: other options, other links, other circumstances."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.study import axes
from experiments.study.experiment import Experiment
from experiments.study.order import Order, Place
from experiments.testbed.profile import changed_profile
from experiments.testbed.topology import Profile
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.files import check, read


def orders(
    experiments: Sequence[Experiment],
    changes: Sequence[str],
    quick: bool = False,
    repeat: int | None = None,
    sweeps: Sequence[str] = (),
    over: Path | None = None,
    profile: Profile | None = None,
    place: Place | None = None,
) -> list[Order]:
    """What to do for each of ``experiments``, at all combinations of ``sweeps`` such as ``mtu=1500,1000``.

    A change such as ``size=20MB`` applies to those that have its key. The links are each one's own, or of the profile
    ``over`` which all are that run over any; or those of ``profile`` in a ``place`` of its own.

    Raises CommandError with exit 64 for a key that none of them has, for a value that one of them does not accept, and
    if none runs over other links; and with 66 for a profile that cannot be read.
    """
    if over and not any(each.any_links for each in experiments):
        names = ", ".join(each.name for each in experiments)
        raise CommandError(Exit.USAGE, f"--profile {over}: {names}: accepted: the links of its own, changed by --set")
    known = {each.name: _links(each, over) for each in experiments}
    for change in changes:
        if not any(_has(each, known[each.name], change) for each in experiments):
            raise _unknown(experiments, known.values(), change)
    made = []
    for each in experiments:
        own = [change for change in changes if _has(each, known[each.name], change)]
        on_links = [change for change in own if _is_of_link(change)]
        options = _options(each, [change for change in own if change not in on_links], quick, repeat)
        links = profile or _profile(each, over, quick, on_links)
        made.append(_order(Order(options, links, axes.read(sweeps), place or Place())))
    return made


def _links(experiment: Experiment, over: Path | None) -> Iterable[str]:
    links = read(_file(experiment, over)).get("links")  # what is wrong with it, check() says
    return links.keys() if isinstance(links, dict) else ()


def _file(experiment: Experiment, over: Path | None) -> Path:
    return over if over and experiment.any_links else experiment.profile


def _has(experiment: Experiment, links: Iterable[str], change: str) -> bool:
    """Whether the option, or the link, is one of this experiment's."""
    key, equals, _ = change.partition("=")
    if not equals:
        raise CommandError(Exit.USAGE, f"--set {change}: accepted: KEY=VALUE, such as size=20MB")
    link, dot, _ = key.partition(".")
    return link in (links if dot else type(experiment).model_fields)


def _is_of_link(change: str) -> bool:
    return "." in change.partition("=")[0]


def _unknown(experiments: Iterable[Experiment], known: Iterable[Iterable[str]], change: str) -> CommandError:
    key, _, value = change.partition("=")
    if _is_of_link(change):
        links = dict.fromkeys(link for links in known for link in links)
        return invalid_value("--set", key, value, f"one of the links {', '.join(links)}")
    keys = {key for each in experiments for key in type(each).model_fields}
    return invalid_value("--set", key, value, f"one of the keys {', '.join(sorted(keys))}")


def _options(experiment: Experiment, changes: Iterable[str], quick: bool, repeat: int | None) -> Experiment:
    document: dict[str, Any] = dict(experiment.quick) if quick else {}
    document |= {key: _read(value) for key, _, value in (change.partition("=") for change in changes)}
    if repeat is not None:
        document["repeat"] = repeat
    return check(document, type(experiment), f"{experiment.name}: --set")


def _profile(experiment: Experiment, over: Path | None, quick: bool, changes: Iterable[str]) -> Profile:
    file = _file(experiment, over)
    shorter = experiment.quick_links if quick and not (over and experiment.any_links) else ()
    return changed_profile(file, [*shorter, *changes])


def _order(order: Order) -> Order:
    """``order``, if it can be done: refused now, and not in the middle of a run."""
    least, links = order.experiment.least_links, order.profile.links
    if len(links) < least:
        accepted = f"a profile of {least} links or more"
        raise CommandError(Exit.USAGE, f"{order.experiment.name}: links: {', '.join(links)}: accepted: {accepted}")
    points = order.points
    if not points:
        raise CommandError(Exit.USAGE, f"{order.experiment.name}: has no points: accepted: some in `at` or of points()")
    order.blueprint(points[0])
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

"""Axes that any experiment on a testbed can be swept over: ``--sweep KEY=VALUE,VALUE``, each against all others.

Every point of the experiment is measured at every combination; its claims are judged at each by itself.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from experiments.study.blueprint import CONGESTION_CONTROL, Blueprint, TestbedBlueprint
from experiments.testbed.appliance import BufferSize, growing_to
from experiments.testbed.profile import changed
from experiments.testbed.topology import Profile
from tributary.settings.errors import CommandError, Exit, invalid_value
from tributary.settings.files import check

_SYSCTL = re.compile(r"net(\.[a-z0-9_-]+)+")


@dataclass(frozen=True)
class Axis:
    """One of them: what its values are, for people, and the testbed's description with one; raises ValueError."""

    accepted: str
    put: Callable[[TestbedBlueprint, str], TestbedBlueprint]


def _sysctl(name: str, blueprint: TestbedBlueprint, value: str) -> TestbedBlueprint:
    return replace(blueprint, everywhere={**blueprint.everywhere, name: value})


def _buffer(name: str, blueprint: TestbedBlueprint, value: str) -> TestbedBlueprint:
    return _sysctl(name, blueprint, growing_to(BufferSize.parse(value).amount))


def _number(least: int, most: int, value: str) -> int:
    if not (value.isdecimal() and least <= int(value) <= most):
        raise ValueError(value)
    return int(value)


AXES: Mapping[str, Axis] = {
    "congestion": Axis(
        "a congestion control of this kernel, such as cubic or reno",
        lambda made, value: _sysctl(CONGESTION_CONTROL, made, value),
    ),
    "scheduler": Axis(
        "an MPTCP scheduler of this kernel, such as default",
        lambda made, value: _sysctl("net.mptcp.scheduler", made, value),
    ),
    "subflows": Axis(
        "further subflows that both ends allow, 0 to 8",
        lambda made, value: replace(made, subflows=_number(0, 8, value)),
    ),
    "receive-buffer": Axis(BufferSize.ACCEPTED, lambda made, value: _buffer("net.ipv4.tcp_rmem", made, value)),
    "send-buffer": Axis(BufferSize.ACCEPTED, lambda made, value: _buffer("net.ipv4.tcp_wmem", made, value)),
    "mtu": Axis("bytes, 576 to 9000", lambda made, value: replace(made, mtu=_number(576, 9000, value))),
}
"""By their keys; besides there are LINK.KEY of every link, and the kernel's settings net.*."""


def read(sweeps: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The values of each axis in ``sweeps`` such as "mtu=1500,1000"; raises CommandError (64)."""
    axes = dict(map(_read, sweeps))
    if len(axes) < len(sweeps):
        raise CommandError(Exit.USAGE, f"--sweep {sweeps[-1]}: accepted: each key once")
    return axes


def _read(sweep: str) -> tuple[str, tuple[str, ...]]:
    key, equals, values = sweep.partition("=")
    if not equals or "" in (key, *values.split(",")):
        raise CommandError(Exit.USAGE, f"--sweep {sweep}: accepted: KEY=VALUE,VALUE, such as mtu=1500,1000")
    return key, tuple(dict.fromkeys(values.split(",")))


def is_of_links(key: str) -> bool:
    """Whether an axis is a key of a link's description."""
    return key not in AXES and not _SYSCTL.fullmatch(key)


def put(place: Blueprint, key: str, value: str) -> TestbedBlueprint:
    """The testbed's description with one axis at a value; raises CommandError (64) for what is not accepted."""
    if not isinstance(place, TestbedBlueprint):
        raise CommandError(Exit.USAGE, f"--sweep {key}={value}: accepted: for experiments on a testbed alone")
    if key in AXES:
        try:
            return AXES[key].put(place, value)
        except ValueError as error:
            raise invalid_value("--sweep", key, value, AXES[key].accepted) from error
    if _SYSCTL.fullmatch(key):
        return _sysctl(key, place, value)
    if "." not in key:
        known = f"{', '.join(AXES)}, LINK.KEY such as wired.delay, or net.NAME such as net.ipv4.tcp_ecn"
        raise invalid_value("--sweep", key, value, known)
    links = changed(place.profile.model_dump(mode="json", exclude_none=True), [f"{key}={value}"])
    return replace(place, profile=check(links, Profile, where=f"--sweep {key}={value}"))

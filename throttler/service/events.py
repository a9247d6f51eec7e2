"""The engine's events besides those of subflows."""

from dataclasses import dataclass

from throttler.policy.model import Policy
from tributary.mptcp.events import Event


@dataclass(frozen=True, slots=True)
class CounterRead:
    """The class of that minor number has sent so many bytes of IP; None if it is not there any more."""

    minor: int
    sent: int | None


@dataclass(frozen=True, slots=True)
class PolicyChanged:
    """Another policy decides from now on."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class InterfacesChanged:
    """The interfaces of this network namespace now."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class KernelReset:
    """A plan failed and everything was removed: nothing is installed in the kernel."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Everything is about to be removed."""


EngineEvent = Event | CounterRead | PolicyChanged | InterfacesChanged | KernelReset | Shutdown

"""What the engine sees besides the subflows' events."""

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
    """From now on another policy decides."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class InterfacesAre:
    """This network namespace has these interfaces now, and no others."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Emptied:
    """A plan failed, and everything was taken down: nothing stands in the kernel."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """Everything is about to be taken down."""


EngineEvent = Event | CounterRead | PolicyChanged | InterfacesAre | Emptied | Stopping

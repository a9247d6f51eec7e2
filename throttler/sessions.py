"""The current sessions: events in, state out."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from tributary.mptcp.events import Ended, Event, SessionClosed, SubflowClosed, SubflowEstablished, SubflowPriority
from tributary.mptcp.four_tuple import FourTuple


@dataclass(frozen=True, slots=True)
class Subflow:
    """An established subflow; ``since`` is in nanoseconds of the monotonic clock."""

    name: FourTuple
    interface: str
    initial: bool
    backup: bool
    since: int


@dataclass(frozen=True, slots=True)
class Session:
    """A session with at least one subflow, named by the listener's token."""

    token: int
    since: int
    subflows: tuple[Subflow, ...]

    @property
    def active(self) -> int:
        """How many subflows carry data: a backup carries none while another lives (RFC 8684 section 3.3.8)."""
        return sum(not subflow.backup for subflow in self.subflows)


class Sessions:
    """All sessions by token. ``unexpected`` counts events that did not fit, by their kind."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._known: dict[FourTuple, tuple[int, bool]] = {}
        self.unexpected: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions.values())

    @property
    def subflows(self) -> int:
        return len(self._known)

    def get(self, token: int) -> Session | None:
        return self._sessions.get(token)

    def with_subflow(self, name: FourTuple) -> Session | None:
        known = self._known.get(name)
        return None if known is None else self._sessions[known[0]]

    def known(self) -> dict[FourTuple, tuple[int, bool]]:
        """All subflows, each with its session's token, and whether it is a backup."""
        return self._known.copy()

    def on_interfaces(self, names: Collection[str]) -> list[FourTuple]:
        return [one.name for session in self for one in session.subflows if one.interface in names]

    def apply(self, event: Event) -> set[int]:
        """Update the state by ``event``; one for an unknown session or subflow changes nothing.

        Returns the tokens of the affected sessions: two, if a subflow reuses the 4-tuple of another session, whose end
        was missed or is still to come.
        """
        about = {event.token}
        match event:
            case SubflowEstablished():
                about.add(self._establish(event))
            case SubflowPriority():
                self._set_backup(event)
            case SubflowClosed():
                self._close(event)
            case SessionClosed():
                session = self._sessions.pop(event.token, None)
                for subflow in session.subflows if session else ():
                    del self._known[subflow.name]
        return about

    def _establish(self, event: SubflowEstablished) -> int:
        """Returns the token of the session that had the subflow before, or else the event's own."""
        before, _ = self._known.get(event.subflow, (event.token, event.backup))
        if before != event.token:
            self._close(SubflowClosed(event.time, before, event.subflow, Ended.REPLACED))
        session = self._sessions.get(event.token) or Session(event.token, event.time, ())
        new = Subflow(event.subflow, event.interface, event.initial, event.backup, event.time)
        others = tuple(subflow for subflow in session.subflows if subflow.name != event.subflow)
        self._sessions[event.token] = replace(session, subflows=(*others, new))
        self._known[event.subflow] = event.token, event.backup
        return before

    def _set_backup(self, event: SubflowPriority) -> None:
        session = self._with_subflow(event)
        if session is not None:
            changed = tuple(
                replace(subflow, backup=event.backup) if subflow.name == event.subflow else subflow
                for subflow in session.subflows
            )
            self._sessions[event.token] = replace(session, subflows=changed)
            self._known[event.subflow] = event.token, event.backup

    def _close(self, event: SubflowClosed) -> None:
        session = self._with_subflow(event)
        if session is None:
            return
        del self._known[event.subflow]
        rest = tuple(subflow for subflow in session.subflows if subflow.name != event.subflow)
        if rest:
            self._sessions[event.token] = replace(session, subflows=rest)
        else:
            del self._sessions[event.token]

    def _with_subflow(self, event: SubflowPriority | SubflowClosed) -> Session | None:
        session = self.with_subflow(event.subflow)
        if session is not None and session.token == event.token:
            return session
        self.unexpected[f"unexpected {type(event).__name__}"] += 1
        return None

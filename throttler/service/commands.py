"""The running daemon's answers to other commands."""

import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from throttler.policy import model
from throttler.policy.decide import Matcher
from throttler.policy.model import Policy, Rule
from throttler.policy.preview import preview
from throttler.policy.values import SteeringMode
from throttler.service import report
from throttler.service.engine import Engine
from throttler.service.events import EngineEvent, PolicyChanged
from throttler.service.query import SessionQuery
from throttler.service.query import check as check_query
from throttler.service.report import Report
from throttler.service.reporter import Reporter
from throttler.shaping import backend
from throttler.shaping.plan import Plan
from throttler.shaping.topology import topology
from throttler.sources.source import Source, SourceKind
from throttler.steering import steerer
from throttler.steering.learned import ClientPath, client_path
from throttler.steering.steerer import Steerer, Turns
from tributary.daemons.control import Request, Response, trial_seconds
from tributary.daemons.logs import Level, Log
from tributary.kernel import interfaces
from tributary.mptcp.four_tuple import FourTuple
from tributary.settings import files
from tributary.settings.errors import CommandError, Exit
from tributary.settings.values import as_text

Feed = Callable[[Iterable[EngineEvent]], Plan]
"""Has the engine handle events, applies the plan, and returns it; raises StepFailed."""


class Commands:
    """Answers requests; an invalid one raises CommandError before any change."""

    def __init__(
        self,
        file: Path,
        policy: Policy,
        engine: Engine,
        source: Source,
        feed: Feed,
        reload_in: Callable[[float | None], None],
        log: Log,
    ) -> None:
        self.reporter = Reporter(self._snapshot)
        self._file = file
        self.policy = policy
        self._runtime: frozenset[str] = frozenset()
        self._engine = engine
        self._source = source
        self._feed, self._reload_in = feed, reload_in
        self._log = log
        self._steerer = Steerer(self._path_of)
        self.steering = Turns(self._steerer, self.reporter.do)
        self.steering_mode = policy.steering.mode
        """The policy's, or off where that cannot be done."""
        self._started = time.monotonic()

    def answer(self, asked: Request) -> Response | Future[bytes]:
        """The answer to a request: {"command": NAME, ...}."""
        known: dict[str, Callable[[Request], Response | Future[bytes]]] = {
            "status": lambda _: self.reporter.ask(_status),
            "sessions": self._sessions,
            "explain": self._explain,
            "set": self._set,
            "unset": self._unset,
            "preview": self._preview,
            "reload": lambda _: self.reload(),
            "try": self._try,
        }
        return known[asked["command"]](asked)

    def _snapshot(self) -> Callable[[], Report]:
        snapshot, source, uptime = self._engine.snapshot(), self._source, time.monotonic() - self._started
        counted = source.counts().copy(), source.capture()
        known = snapshot, self._runtime, source.kind, *counted, self._file, uptime
        now = time.monotonic_ns()
        return lambda: Report(*known, report.measure(snapshot.devices), now, self._steerer.status)

    def _sessions(self, asked: Request) -> Future[bytes]:
        query = files.check(asked["query"], SessionQuery, where="sessions")
        check_query(query, self.policy.privacy)
        return self.reporter.ask(_Found(query))

    def _explain(self, asked: Request) -> Future[bytes]:
        privacy = self.policy.privacy
        question = report.question(self._engine, asked["ends"], privacy)
        token = question.session.token
        return self.reporter.do(
            lambda: json.dumps(report.explain(question, privacy, self._steerer.explain(token, privacy))).encode()
        )

    def watch(self, policy: Policy, there: interfaces.Numbers) -> None:
        """Watch those of the policy's interfaces that exist; raises CommandError, exit 71."""
        self._source.watch({name: number for name, number in there.items() if name in policy.interfaces})

    def begin_steering(self) -> str | None:
        """Steer by the policy. Where that cannot be done its limits are kept, also after a boot that lost a sysctl.

        Returns why it cannot be done.
        """
        try:
            self._require_steering(self.policy)
            self.steering_mode = self.policy.steering.mode
        except CommandError as failure:
            self.steering_mode = SteeringMode.OFF
            self._log.event("not steered", Level.ERROR, reason=str(failure))
            return str(failure)
        return None

    def _require_steering(self, policy: Policy) -> None:
        """Raise CommandError, exit 69, if the policy's steering cannot be done here."""
        mode = policy.steering.mode
        if mode is not SteeringMode.OFF and self._source.kind is not SourceKind.KERNEL:
            raise CommandError(
                Exit.UNAVAILABLE, f"steering.mode = '{mode}' needs sessions that end on this host (--source kernel)"
            )
        steerer.require(mode)

    def _path_of(self, token: int, name: FourTuple) -> ClientPath | None:
        """The path of a subflow, for the steerer in its thread: sessions are replaced, and never change."""
        session = self._engine.sessions.get(token)
        for subflow in session.subflows if session else ():
            if subflow.name == name:
                return client_path(self._engine.path(subflow) or subflow.interface, name.remote)
        return None

    def reload(self) -> Response:
        """Read the policy's file again; changes at run time are dropped."""
        return self._change_all(model.read(self._file), None)

    def _try(self, asked: Request) -> Response:
        """Take another policy until a reload, and reload by itself after some seconds."""
        seconds = trial_seconds(asked)
        policy = model.parse(as_text(asked["settings"]), asked["name"], self._file)
        self._require_steering(policy)
        return self._change_all(policy, seconds)

    def _set(self, asked: Request) -> Response:
        policy, rule = self._with_rule(asked)
        return self._change_live(policy, rule.name)

    def _preview(self, asked: Request) -> Future[bytes]:
        policy, rule = self._with_rule(asked)
        model.check(policy, "set")
        known = self._engine.snapshot()
        now, active = Matcher(self.policy), known.context.rules
        return self.reporter.do(lambda: preview(now, policy, rule, known.sessions, active).model_dump_json().encode())

    def _with_rule(self, asked: Request) -> tuple[Policy, Rule]:
        rule = files.check(asked["rule"], Rule, where="set")
        return model.with_rule(self.policy, rule, last=bool(asked.get("last"))), rule

    def _unset(self, asked: Request) -> Response:
        name = str(asked["rule"])
        return self._change_live(model.without_rule(self.policy, name), name)

    def _change_live(self, policy: Policy, name: str) -> Response:
        model.check(policy, "set")
        return self._change(policy, self._runtime | {name})

    def _change_all(self, policy: Policy, reload_in: float | None) -> Response:
        """Take the whole policy, until a reload after so many seconds if it is on trial."""
        not_steered = None
        try:
            answer = self._change(policy, frozenset())
        finally:
            # It is in force also if nft or tc failed: everything is installed again then.
            if self.policy is policy:
                not_steered = self.begin_steering()
                self._reload_in(reload_in)
        return answer | ({"not_steered": not_steered} if not_steered else {})

    def _change(self, policy: Policy, runtime: frozenset[str]) -> Response:
        backend.ensure_no_foreign_qdisc(topology(policy).devices)
        self.watch(policy, interfaces.numbers())
        self.policy, self._runtime = policy, runtime
        plan = self._feed([PolicyChanged(policy)])
        return {
            "rules": [_described(rule) for rule in policy.rules],
            "elements_added": len(plan.add),
            "elements_removed": len(plan.remove),
        }


@dataclass(frozen=True)
class _Found:
    """Equal queries get one answer."""

    query: SessionQuery

    def __call__(self, report: Report) -> bytes:
        return report.found(self.query).model_dump_json().encode()


def _status(report: Report) -> bytes:
    return report.status.model_dump_json().encode()


def _described(rule: Rule) -> dict[str, Any]:
    return rule.model_dump(mode="json", exclude_defaults=True)

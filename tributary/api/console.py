"""What the console's page and its API exchange (``/api/v1``), beside the documents of ``tributary --json``."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from tributary.api.documents import VERSION, Bypass, Device, Finding, HomeGateway, Link, Router, Rule, Service, Session
from tributary.api.parts import Fleet, HandOff, Overlay


class Message(BaseModel):
    """The base of all that is exchanged."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Answer(Message):
    """The base of what the API answers."""

    version: int = Field(default=VERSION, description="of all documents")


class Examination(Message):
    """What the doctor found when it looked at the machine."""

    time: float = Field(description="when, in seconds since 1970")
    role: str = Field(description="what the machine was examined as: `gateway`, `router` or `kernel`")
    findings: tuple[Finding, ...] = Field(description="what was found")


class Look(Answer):
    """All that the page shows at a moment."""

    time: float = Field(description="when, in seconds since 1970")
    services: tuple[Service, ...] = Field(description="the programs, and whether they run")
    links: tuple[Link, ...] = Field(description="access links and paths, with rates")
    sessions: tuple[Session, ...] = Field(description="those that carry most now, with rates")
    sessions_total: int = Field(description="how many there are")
    rules: tuple[Rule, ...] = Field(description="of the throttler's policy, in its order")
    devices: tuple[Device, ...] = Field(description="those of a home router's LAN that use most now, with rates")
    devices_total: int = Field(description="how many there are")
    bypasses: tuple[Bypass, ...] = Field(description="what leaves a home router's LAN past the tunnels")
    gateway: HomeGateway | None = Field(description="that of a home router")
    notes: tuple[str, ...] = Field(description="what is wrong just now, in words")
    examined: Examination | None = Field(description="what the doctor found; null: it has not looked since the start")
    fixes: bool = Field(default=False, description="whether the doctor fixes here what has a `fix_name`")
    overlay: Overlay | None = Field(default=None, description="null: it is not read here")
    handoff: HandOff | None = Field(default=None, description="null: no front of a hand-off runs here")
    fleet: Fleet | None = Field(default=None, description="null: nothing announces this gateway")


class Sessions(Answer):
    """Sessions that fit a question."""

    sessions: tuple[Session, ...] = Field(description="a part of them, with rates")
    offset: int = Field(default=0, description="how many come before that part")
    total: int = Field(description="how many fit")


class Series(Message):
    """What a link carried; null where nothing is known."""

    sent: tuple[float | None, ...] = Field(description="bits per second at each time")
    received: tuple[float | None, ...] = Field(description="bits per second at each time")
    rtt: tuple[float | None, ...] = Field(description="round-trip time at each time")


class History(Answer):
    """What all links carried, at times that are the same for all."""

    step: int = Field(description="seconds between two times; each value is the mean over a step")
    times: tuple[int, ...] = Field(description="seconds since 1970")
    links: dict[str, Series] = Field(description="by the link's name")


class RuleResult(Message):
    """Whether a rule applies to a subflow."""

    rule: str = Field(description="its name")
    applies: bool = Field(description="whether it does")
    reason: str | None = Field(description="why it does not")


class ExplainedSubflow(Message):
    """Why a subflow is throttled, or why not."""

    token: str = Field(description="the session's")
    subflow: str = Field(description="its two ends")
    path: str | None = Field(description="its path")
    rules: tuple[RuleResult, ...] = Field(description="each rule, until one applies")
    steering: str | None = Field(description="why its session's paths are backups or not, where sessions are steered")


class Explanation(Answer):
    """Why the subflows of a session are throttled, or why not."""

    subflows: tuple[ExplainedSubflow, ...] = Field(description="the session's")


class Who(Answer):
    """What whoever asks may do."""

    manages: bool = Field(description="whether changes are allowed")
    name: str | None = Field(description="of who has logged in")
    reading: Literal["open", "closed"] = Field(description="whether one may look without having logged in")
    password: bool = Field(description="whether a password is set")


class Entry(Message):
    """A line of the journal."""

    id: int = Field(description="grows with time")
    time: float = Field(description="when, in seconds since 1970")
    who: str = Field(description="who has done it")
    subject: str = Field(description="`path NAME`, `link NAME`, `router NAME`, `bypass MATCH` or `check NAME`")
    key: Literal["limit", "use", "download", "upload", "access", "to", "state"] = Field(
        description="what was changed of it"
    )
    before: str | None = Field(description="null: no limit, what the settings say, no access, or no by-pass")
    after: str | None = Field(description="null: no limit, what the settings say, no access, or no by-pass")
    undone: bool = Field(description="whether it was undone")


class Journal(Answer):
    """What was changed, the newest first."""

    entries: tuple[Entry, ...] = Field(description="the newest")


class Made(Answer):
    """What became of a change."""

    entry: Entry | None = Field(description="its line; null: nothing to change, or a later value took its place")


class Refusal(Message):
    """What was wrong."""

    error: str = Field(description="a line that says what was wrong, and what would be right")


class Login(Message):
    """A one-time token of ``tributary console login``, or the password."""

    token: str | None = Field(default=None, max_length=200, description="the token")
    password: str | None = Field(default=None, max_length=1000, description="the password")


class Routers(Answer):
    """The home routers of this gateway."""

    routers: tuple[Router, ...] = Field(description="those that are enrolled")
    notes: tuple[str, ...] = Field(description="what is wrong with their files, in words")


class RouterName(Message):
    """A home router."""

    name: str = Field(
        max_length=40, description="1 to 40 of a-z, 0-9 and -", json_schema_extra={"pattern": "^[a-z0-9-]{1,40}$"}
    )


class Enrolled(Answer):
    """What a home router needs to come in; it is kept nowhere and cannot be shown again."""

    settings: str = Field(description="a table of TOML for the router's settings, with its secret")
    qr: str = Field(description="the same as a QR code: the data URI of an SVG picture")
    notes: tuple[str, ...] = Field(description="what is worth knowing")


class Revoked(Answer):
    """A router that is revoked."""

    notes: tuple[str, ...] = Field(description="what was done")


class Fix(Message):
    """What the doctor is to fix."""

    name: str = Field(max_length=40, description="a `fix_name` of its findings")


class RanCommand(Message):
    """A command that the doctor has run."""

    command: str = Field(description="as for a shell")
    failure: str | None = Field(description="what went wrong; null: nothing")


class Fixed(Answer):
    """What the doctor has done. Its findings are in the next look."""

    name: str = Field(description="what was asked for")
    ran: tuple[RanCommand, ...] = Field(description="the commands; none: nothing was wrong any more")
    left: tuple[str, ...] = Field(description="what is still wrong of it")
    notes: tuple[str, ...] = Field(default=(), description="what is worth knowing")


class TriedRule(Message):
    """A rule of the throttler that is tried."""

    rule: dict[str, str | int | bool | list[str] | list[int]] = Field(
        max_length=30, description="its keys and values, as in `[[rules]]` of a policy"
    )


class TouchedSubflow(Message):
    """A subflow that a rule would decide about."""

    token: str = Field(description="the session's")
    subflow: str = Field(description="its two ends")
    path: str | None = Field(description="its path")
    instead_of: str | None = Field(description="the rule that decides about it now")


class Preview(Answer):
    """Which subflows a rule would be about while it is active."""

    acts: bool = Field(description="whether it throttles, or lets pass")
    sessions: int = Field(description="sessions with such subflows")
    subflows: int = Field(description="subflows that it would decide about")
    clients: int = Field(description="their clients' addresses")
    released: int = Field(description="subflows that it decides about now and would not any more")
    taken: dict[str, int] = Field(description="how many of them another rule decides about now, by its name")
    first: tuple[TouchedSubflow, ...] = Field(description="the first of them")


class Limit(Message):
    """A limit for a path."""

    path: str = Field(max_length=100, description="its name in the throttler's policy")
    rate: str | None = Field(max_length=40, description="such as `2mbit`; null: no limit")


class LinkChange(Message):
    """A change of an access link."""

    link: str = Field(max_length=100, description="its name in the router's settings")
    key: Literal["use", "download", "upload"] = Field(description="what is changed")
    value: str | None = Field(max_length=40, description="such as `backup` or `40mbit`; null: what the settings say")


class BypassChange(Message):
    """A by-pass of a home router."""

    match: str = Field(max_length=60, description="a network, or a device's MAC address")
    to: str | None = Field(max_length=40, description="a link's name, or `best`; null: by-passed no more")


class Undo(Message):
    """A change that is to be undone."""

    entry: int = Field(ge=1, lt=1 << 63, description="its id in the journal")

"""How a home router asks whether links lead to the gateway: what the daemon's settings and a card's say alike."""

from typing import Annotated

from pydantic import Field

from tributary.settings.files import AS_TEXT, Settings
from tributary.settings.hosts import Target
from tributary.settings.units import Duration, within
from tributary.settings.values import accepting, or_none, reading

TARGET = "an address and a port, such as '203.0.113.5:5124' or '[2001:db8::5]:5124'; no name, no loopback"
SECONDS = "a time from '1s' to '3600s'"

ProbeTarget = Annotated[Target | None, accepting(TARGET, or_none(reading(Target, Target.parse))), AS_TEXT]
Seconds = Annotated[Duration, accepting(SECONDS, within(Duration.parse("1s"), Duration.parse("3600s")))]


class Probe(Settings):
    """How a link that has a carrier and a dead path is found out."""

    target: ProbeTarget = Field(
        default=None,
        title="what links must reach, best the converter, with tunnels at its inside address; none: a carrier will do",
    )
    interval: Seconds = Field(default=Duration.parse("10s"), title="time between probes of a link that answers")
    timeout: Seconds = Field(
        default=Duration.parse("2s"), title="time for an answer; the next probe follows a failure at once"
    )
    failures: int = Field(
        default=3, ge=1, le=100, title="probes in a row that fail before a link is taken out", description="1 to 100"
    )
    mptcp_target: ProbeTarget = Field(default=None, title="an MPTCP server past the tunnels: do links strip MPTCP?")
    captive: bool = Field(default=True, title="look for a login page where the gateway is silent")

"""Where a daemon serves its metrics."""

from typing import Annotated

from pydantic import Field, PlainSerializer

from tributary.settings.files import Settings
from tributary.settings.hosts import Target
from tributary.settings.metrics_argument import LISTEN, parse
from tributary.settings.values import accepting, or_none, reading

ListenAddress = Annotated[
    Target | None,
    accepting(LISTEN, or_none(reading(Target, parse))),
    PlainSerializer(str, when_used="unless-none"),
]


class Metrics(Settings):
    """Metrics for Prometheus, which everybody who reaches the address can read."""

    address: ListenAddress = Field(default=None, title="where Prometheus finds /metrics; none: nowhere")

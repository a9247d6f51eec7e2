"""Where a daemon serves its metrics."""

from typing import Annotated

from pydantic import Field

from tributary.settings.files import AS_TEXT, Settings
from tributary.settings.hosts import Target
from tributary.settings.metrics_argument import LISTEN, parse
from tributary.settings.values import accepting, or_none, reading

ListenAddress = Annotated[Target | None, accepting(LISTEN, or_none(reading(Target, parse))), AS_TEXT]


class Metrics(Settings):
    """Metrics for Prometheus, which everybody who reaches the address can read."""

    address: ListenAddress = Field(default=None, title="where Prometheus finds /metrics; none: nowhere")

"""The conversion delay of a contender."""

from statistics import median

from experiments.bench.converter.contenders import Contender
from experiments.scenarios.conversion_delay import ONE_AT_A_TIME, watched
from experiments.testbed import cables
from experiments.testbed.build import Testbed
from experiments.testbed.cables import CLIENT_SIDE, SERVER_SIDE
from tributary.settings.errors import CommandError, Exit

KINDS = {"syn_us": "syn", "data_us": "first_data", "kept_data_us": "data", "reply_us": "reply"}


def conversion_microseconds(testbed: Testbed, contender: Contender, seconds: float) -> dict[str, float]:
    """Medians: ``syn_us``, ``data_us`` (a connection's first data), ``kept_data_us`` (later ones), ``reply_us``.

    One new connection after the other, each with one request, and then requests on one that is kept.
    """
    load = (*contender.route, *ONE_AT_A_TIME, "--seconds", str(seconds))
    with watched(testbed.gateway, CLIENT_SIDE, SERVER_SIDE) as seen:
        # A connection to the origin that was kept would have no SYN.
        cables.load(testbed, "connect", *load, "--fresh")
        cables.load(testbed, "requests", *load)
        told = seen()
    if empty := [kind for kind in KINDS.values() if not told[kind]]:
        raise CommandError(Exit.WRONG_RESULT, f"{contender.name}: the probe saw no {empty[0]} on both sides")
    return {name: median(told[kind]) for name, kind in KINDS.items()}

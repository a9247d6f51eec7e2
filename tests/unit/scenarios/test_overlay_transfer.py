"""Verdicts on transfers from California to Ireland."""

from experiments.scenarios.overlay_transfer import CDN, DIRECT, NEW, ONE, THREE, OverlayTransfer
from experiments.study.readings import Point
from tests.unit.scenarios.made_up import but, claims_test

SIZES = [size.amount // 1000 for size in OverlayTransfer().size]
TAKES = {DIRECT: 400.0, ONE: 230.0, THREE: 200.0, NEW: 300.0, CDN: 200.0}


def good(point: Point) -> dict[str, float]:
    return {f"{what}_ms_{size}": TAKES[point["by"]] for what in ("first_byte", "whole") for size in SIZES}


test_claims = claims_test(
    OverlayTransfer,
    good,
    (but(good, {"by": DIRECT}, whole_ms_50=310.0), "50 kB come 60 % faster by three converters than directly"),
    (but(good, {"by": ONE}, whole_ms_50=280.0), "50 kB by one converter: within 35 % of a warm CDN"),
    (but(good, {"by": THREE}, whole_ms_50=215.0), "50 kB by three converters: as by a warm CDN, or faster"),
    panels=1,
    differing_too=True,
)

"""Netfilter marks that parts agree on: one sets them on packets, another has rules for them."""

BY_LINK = 0x8400
"""Of what leaves by the best link; with a place of 1 to 8 added, by that link, in the order of the settings."""

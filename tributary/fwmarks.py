"""Netfilter marks that parts agree on: one sets them on packets, another has rules for them."""

RETURN = 0x8420
"""Of what answers a connection that came by the tunnel for everything else: it leaves by that tunnel or not at all."""

BY_LINK = 0x8400
"""Of what leaves by the best link; with a place of 1 to 8 added, by that link, in the order of the settings."""

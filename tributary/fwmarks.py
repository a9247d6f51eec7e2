"""Netfilter marks that several parts share: one sets them on packets, another has rules for them."""

RETURN = 0x8420
"""Replies to a connection that came by the default tunnel: they leave by that tunnel or not at all."""

BY_LINK = 0x8400
"""Packets that leave by the best link; plus 1 to 8, by that link, in the order of the settings."""

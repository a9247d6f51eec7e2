"""Images of the appliance: how one is made, and how it comes onto a card."""

"""The tunnels to a gateway, and which gateway of several is used."""

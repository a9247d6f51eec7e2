"""Client, gateway and server on real machines, reached over SSH: links as they are, measured and not made."""

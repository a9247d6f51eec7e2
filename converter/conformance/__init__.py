"""A conformance suite for Transport Converters: servers of the 0-RTT TCP Convert Protocol (RFC 8803)."""

"""What is on the wire: MPTCP options, keys and tokens, segments, and the filter that captures them."""

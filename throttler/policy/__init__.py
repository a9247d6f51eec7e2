"""The policy: what an operator writes, and what it says about a subflow at a moment."""

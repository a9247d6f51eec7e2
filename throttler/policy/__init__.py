"""The policy: what an operator writes, and its evaluation for a subflow."""

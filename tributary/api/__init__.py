"""What `tributary` answers with --json, on every box alike."""

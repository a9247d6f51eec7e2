"""Is an image what its board needs? Looked at as a file: nothing is mounted, nothing started."""

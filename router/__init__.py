"""The daemon of a home router: keeps routing rules and MPTCP endpoints right while its links come, go and change."""

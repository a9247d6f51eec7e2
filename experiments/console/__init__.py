"""The console's page beside a testbed with traffic."""

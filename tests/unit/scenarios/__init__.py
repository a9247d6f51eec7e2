"""The scenarios' verdicts on readings that are made up: each holds on good ones, and fails on those that break it."""

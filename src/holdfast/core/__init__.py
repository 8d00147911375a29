"""Decisions, as pure functions: no clock, randomness, files, network or logging."""

"""Searching notes and sessions, and the memory tools that a model can call."""

"""Helpers to write requests, read replies and state rules in any dialect."""

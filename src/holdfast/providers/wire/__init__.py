"""Helpers to write requests, read replies and state rules for any provider."""

"""Asking a model for a summary, and checking what it returns."""

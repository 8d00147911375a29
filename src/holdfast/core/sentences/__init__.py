"""Sentences: where they end, in whatever language."""

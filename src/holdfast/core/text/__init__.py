"""Bounded text: cutting, spans, strings inside JSON and timestamps."""

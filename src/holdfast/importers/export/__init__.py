"""Transcripts of other tools, written from records."""

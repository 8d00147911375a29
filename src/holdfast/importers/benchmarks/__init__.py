"""Transcripts of benchmark runs: dialogues, traces and coding agents."""

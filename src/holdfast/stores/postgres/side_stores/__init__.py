"""Payloads, accesses, summaries, notes and the memory index in a database, beside sessions."""

"""Counts the model calls of a server, and holds them to budgets."""

"""Sentences: phrases and forms by which orders, bans, wishes and facts are told from the rest."""

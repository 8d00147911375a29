"""Conversations by their tokens and cost, and by what could have been spared."""

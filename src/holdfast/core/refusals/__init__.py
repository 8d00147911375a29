"""Refusals of providers, as the log has them: nothing of them is sent to the same model again."""

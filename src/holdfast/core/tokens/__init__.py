"""Counting and estimating tokens, for texts and for images."""

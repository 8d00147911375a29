"""Copies everything of one store into another, whatever kinds they are."""

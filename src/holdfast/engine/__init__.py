"""Carries out the decisions of the core, or plays them through without a model."""

"""Describing the structure of an output: JSON, logs, tables, test failures, outlines."""

"""Holdfast: durable sessions and a bounded context for LLM agents."""

__version__ = "0.1.0"

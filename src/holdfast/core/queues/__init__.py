"""Decisions about messages in queues."""

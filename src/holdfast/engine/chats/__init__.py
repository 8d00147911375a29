"""Agents behind the APIs of model providers: a client's chat is a durable session."""

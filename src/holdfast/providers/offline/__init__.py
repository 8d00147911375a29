"""A model that runs without a network: it uses tools, quotes and summarises by rules."""

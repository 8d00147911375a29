"""Effects that a flow asks a driver to perform, and events that it reports."""

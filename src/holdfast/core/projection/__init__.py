"""From the log to the messages of a request that fits the context window."""

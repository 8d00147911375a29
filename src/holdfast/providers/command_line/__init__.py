"""An agent's command line as a model: it keeps a session of its own, and ours outlives it."""

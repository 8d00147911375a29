"""The proxy's decisions: whose request it is, which session, and what may be cut."""

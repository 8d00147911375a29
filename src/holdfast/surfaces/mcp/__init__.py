"""A server of the Model Context Protocol: sessions, outputs and memory for one caller."""

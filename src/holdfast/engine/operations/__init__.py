"""The operations: each declared once, with its parameters and its answer, for every door."""

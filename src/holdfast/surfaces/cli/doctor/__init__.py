"""`holdfast doctor`."""

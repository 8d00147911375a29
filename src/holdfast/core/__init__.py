"""What Holdfast decides. Pure: no clock, randomness, files, network or logging."""

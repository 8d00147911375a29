"""Sessions, notes, outputs and checkpoints of other tools, brought into a store."""

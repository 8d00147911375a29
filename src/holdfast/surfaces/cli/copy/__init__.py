"""`holdfast copy`: everything of a store into another."""

"""`holdfast evaluate`, and the page of an evaluation."""

"""The narrative: what was said and done in the records that a cut removes, in order of time."""

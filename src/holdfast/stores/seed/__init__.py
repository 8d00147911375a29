"""Files that the seed (claw0) keeps beside its logs, for folders that are opened where they lie."""

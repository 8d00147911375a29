"""The index of memory: segments of terms by owner, and the tables of a file that has them."""

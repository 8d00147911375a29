"""The sessions and notes of a store as one caller may use them."""

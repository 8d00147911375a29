"""Files that a message carries: their kinds by their bytes, and what is wrong with them."""

"""Model APIs, one file each, and the vocabularies that count for them."""

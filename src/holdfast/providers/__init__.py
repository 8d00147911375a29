"""Model APIs, one folder each, and the vocabularies that count for them."""

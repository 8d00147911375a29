"""Finding credentials, masking them and storing registered ones as handles."""

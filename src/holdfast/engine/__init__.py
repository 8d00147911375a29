"""What performs: here decisions of the core are carried out, or played through without a model."""

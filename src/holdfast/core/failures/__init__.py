"""Classifying the errors of model providers from their texts, codes and numbers."""

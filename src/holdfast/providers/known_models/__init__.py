"""The catalog of models: their prices and windows, from the project `genai-prices`."""

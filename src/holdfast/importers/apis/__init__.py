"""Message lists of the model APIs, and logs of Holdfast itself."""

"""The gateway: many people and programs, one engine. What arrives is durable, then answered."""

"""Facts about models and their APIs: messages, replies, dialects, prices, usage, windows."""

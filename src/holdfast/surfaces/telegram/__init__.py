"""A Telegram bot whose chats are durable sessions."""

"""Ways in for people and programs. They show and ask; they decide nothing."""

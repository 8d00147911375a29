"""The pages of one session: what was said, its context, and its compactions."""

"""Parts that every adapter uses: names, the store, originals, versions, blocking calls."""

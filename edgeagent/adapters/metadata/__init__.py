"""The policy's own metadata by The Update Framework: fetched raw, then verified over a folder."""

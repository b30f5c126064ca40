-- The retained commands that lie at the broker and were told, so that a restart does not tell them all again.
-- One that is gone from there goes from here, and is told anew when it comes back.
CREATE TABLE retained (
    topic  TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL      -- of its payload
) STRICT, WITHOUT ROWID;

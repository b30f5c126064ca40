-- What the hub has called for a person about, so that a restart does not tell it all again.

-- The last turn of each alert. One that is over stays, so that it is not raised again at once.
CREATE TABLE alerts (
    code     TEXT PRIMARY KEY,
    standing INTEGER NOT NULL CHECK (standing IN (0, 1)),
    since    INTEGER NOT NULL,  -- microseconds since 1970: when it was raised
    told_at  INTEGER NOT NULL   -- the same: when it was told last
) STRICT, WITHOUT ROWID;

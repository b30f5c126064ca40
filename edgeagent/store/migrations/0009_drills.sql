-- When each drill was held last, and how it ended.

CREATE TABLE drills (
    kind         TEXT PRIMARY KEY CHECK (kind IN ('dead-letter', 'lock', 'crash', 'duplicate')),
    at           INTEGER NOT NULL,  -- microseconds since 1970: when the last one began
    passed       INTEGER NOT NULL CHECK (passed IN (0, 1)),
    milliseconds INTEGER NOT NULL CHECK (milliseconds >= 0),
    why          TEXT NOT NULL,
    actor        TEXT NOT NULL,
    good_at      INTEGER            -- as ``at``, of the last one that passed
) STRICT, WITHOUT ROWID;

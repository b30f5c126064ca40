-- The steps of commands that are made of several: what was recorded before and after each of them
-- (SPEC S1). `core/saga` has the phases and their moves.
CREATE TABLE steps (
    run     INTEGER NOT NULL REFERENCES inbox (run) ON DELETE CASCADE,
    part    INTEGER NOT NULL CHECK (part >= 0),   -- its place in the plan
    name    TEXT NOT NULL,                        -- the action that it is
    phase   TEXT NOT NULL CHECK (phase IN (
        'found', 'begun', 'done', 'failed', 'unsure', 'barred', 'undoing', 'undone', 'stuck')),
    tries   INTEGER NOT NULL CHECK (tries >= 0),  -- how often its present message was sent
    before  TEXT,                                 -- JSON: what the device showed before it; NULL: not known
    level   TEXT CHECK (level IN ('sent', 'accepted', 'applied', 'verified')),
    reason  TEXT,
    detail  TEXT NOT NULL,
    at      TEXT NOT NULL,                        -- RFC 3339: when it came to this phase, the best guess
    PRIMARY KEY (run, part),
    CHECK (tries > 0 OR phase NOT IN ('done', 'failed', 'unsure', 'undone'))
) STRICT, WITHOUT ROWID;

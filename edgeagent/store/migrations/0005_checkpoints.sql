-- The heads of the audit trail that the hub has signed. The trail begins after the first of them once
-- what came before it is pruned.
CREATE TABLE checkpoints (
    number   INTEGER PRIMARY KEY CHECK (number >= 1),  -- of the trail's row
    hash     BLOB NOT NULL CHECK (length(hash) = 32),  -- of that row
    at       INTEGER NOT NULL,                         -- microseconds since 1970, the best guess
    proven   INTEGER NOT NULL CHECK (proven IN (0, 1)), -- whether that guess rests on a proof
    event    INTEGER NOT NULL,                         -- its number in the stream `record`
    exported INTEGER NOT NULL DEFAULT 0 CHECK (exported IN (0, 1)),
    data     BLOB NOT NULL                             -- the checkpoint with its proof, as JSON text
) STRICT;

-- The furthest head of the trail that the cloud was told and has answered. One row.
CREATE TABLE audit_told (
    one    INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL CHECK (number >= 1),
    hash   BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;

-- Updates of firmware, each as it was last recorded (SPEC F4). `core/firmware` has the stages and their moves.
CREATE TABLE updates (
    run      INTEGER PRIMARY KEY REFERENCES inbox (run) ON DELETE CASCADE,
    device   TEXT NOT NULL,
    stage    TEXT NOT NULL CHECK (stage IN (
        'staging', 'triggered', 'installing', 'soaking', 'done', 'kept', 'silent',
        'astray', 'reverting', 'reverted', 'stuck')),
    artifact TEXT NOT NULL,
    sha256   TEXT NOT NULL,
    ticket   TEXT NOT NULL CHECK (length(ticket) >= 16), -- secret: what the address of its file is made of
    earlier  TEXT NOT NULL,                         -- the version before
    wanted   TEXT NOT NULL,                         -- the version of the file
    percent  INTEGER CHECK (percent BETWEEN 0 AND 100),
    runs     TEXT NOT NULL,                         -- the version that was told last; empty: none was
    called_off INTEGER NOT NULL DEFAULT 0 CHECK (called_off IN (0, 1)), -- the message that does so is sent once
    at       TEXT NOT NULL                          -- RFC 3339: when it came to this stage, the best guess
) STRICT;

-- Nobody else may have a device that is in the middle of one.
CREATE INDEX updates_under_way ON updates (device)
 WHERE stage IN ('triggered', 'installing', 'soaking', 'astray', 'reverting');

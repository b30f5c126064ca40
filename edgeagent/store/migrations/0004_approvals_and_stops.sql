-- Who has agreed to what, and what is stopped.

-- The word of people at the hub, each about one payload for one device, for one run, good on boot time.
CREATE TABLE approvals (
    number  INTEGER PRIMARY KEY CHECK (number >= 1),
    sha256  TEXT NOT NULL,
    device  TEXT NOT NULL,
    run     INTEGER NOT NULL REFERENCES inbox (run) ON DELETE CASCADE,
    actor   TEXT NOT NULL,
    at      INTEGER NOT NULL,  -- microseconds since 1970, the best guess
    boot    TEXT NOT NULL,     -- the boot in which `until` counts
    until   INTEGER NOT NULL   -- milliseconds of boot time
) STRICT;
CREATE INDEX approvals_of_run ON approvals (run);

-- The last word on each kind of command, whether it stops or resumes.
CREATE TABLE stops (
    kind     TEXT PRIMARY KEY,
    verb     TEXT NOT NULL CHECK (verb IN ('stop', 'resume')),
    sequence INTEGER NOT NULL CHECK (sequence >= 1),
    actor    TEXT NOT NULL,
    why      TEXT NOT NULL,
    at       INTEGER NOT NULL, -- microseconds since 1970, the best guess
    is_guess INTEGER NOT NULL CHECK (is_guess IN (0, 1))  -- the sequence is of a time that was not known
) STRICT, WITHOUT ROWID;

-- Every order that came with a good signature, so that none of them does anything twice, until it is
-- certainly too old to be obeyed.
CREATE TABLE orders (
    id         TEXT PRIMARY KEY,
    sha256     TEXT NOT NULL,
    reason     TEXT,            -- why it was refused; NULL where it was obeyed
    expires_at INTEGER NOT NULL -- microseconds since 1970
) STRICT, WITHOUT ROWID;
CREATE INDEX orders_over ON orders (expires_at);

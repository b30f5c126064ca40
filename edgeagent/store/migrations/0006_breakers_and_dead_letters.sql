-- What is stopped by itself, and what ended badly and waits for a person.

-- The breakers that are not closed: one for each origin and action.
CREATE TABLE breakers (
    origin      TEXT NOT NULL,              -- a key id
    action      TEXT NOT NULL,
    signal      TEXT NOT NULL,
    why         TEXT NOT NULL,
    at          INTEGER NOT NULL,           -- microseconds since 1970, the best guess
    opened_boot TEXT NOT NULL,
    opened_at   INTEGER NOT NULL,           -- milliseconds of boot time
    open_for    INTEGER,                    -- milliseconds; NULL: until a person resets it
    probe       INTEGER,                    -- the run that was let in to try
    let_boot    TEXT,
    let_at      INTEGER,
    PRIMARY KEY (origin, action),
    CHECK ((let_boot IS NULL) = (let_at IS NULL))
) STRICT, WITHOUT ROWID;

-- What was counted towards one, within its span; emptied when it opens.
CREATE TABLE breaker_signals (
    origin   TEXT NOT NULL,
    action   TEXT NOT NULL,
    signal   TEXT NOT NULL,
    identity TEXT NOT NULL,                 -- which ones are equal; empty where all are
    about    TEXT NOT NULL,                 -- what it is a signal of: each is counted once
    boot     TEXT NOT NULL,
    at       INTEGER NOT NULL               -- milliseconds of boot time
) STRICT;
CREATE UNIQUE INDEX breaker_signals_counted ON breaker_signals (origin, action, signal, identity, about);

-- Commands that ended badly, whole: the inbox forgets them, a dead letter stays until somebody deals with it.
CREATE TABLE dead_letters (
    number      INTEGER PRIMARY KEY CHECK (number >= 1),
    run         INTEGER NOT NULL,           -- 0 of one that never had a row
    ordinal     INTEGER NOT NULL,
    command     TEXT NOT NULL,
    device      TEXT NOT NULL,
    action      TEXT NOT NULL,
    issuer      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    lane        TEXT NOT NULL CHECK (lane IN ('low', 'medium', 'high')),
    sha256      TEXT NOT NULL,
    envelope    BLOB NOT NULL,
    expires_at  INTEGER NOT NULL,           -- microseconds since 1970
    local_boot  TEXT,                       -- of a command typed here: until when it is good
    local_until INTEGER,
    outcome     TEXT NOT NULL,
    blame       TEXT NOT NULL CHECK (blame IN ('transient', 'permanent', 'suspicious')),
    reason      TEXT,
    answered    INTEGER NOT NULL CHECK (answered IN (0, 1)), -- whether its issuer decides anew, and nobody is called
    detail      TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    sent        INTEGER NOT NULL CHECK (sent IN (0, 1)),
    fence       INTEGER NOT NULL,           -- 0 of one that was never claimed
    holder      TEXT,                       -- who worked it
    received_at INTEGER NOT NULL,           -- microseconds since 1970
    buried_at   INTEGER NOT NULL,
    traceparent TEXT,                       -- under which it ran
    dealt       TEXT CHECK (dealt IN ('replayed', 'discarded')),
    dealt_by    TEXT,
    dealt_at    INTEGER,
    dealt_why   TEXT,
    replayed_as INTEGER,                    -- the run that it became
    CHECK ((local_boot IS NULL) = (local_until IS NULL)),
    CHECK ((dealt IS NULL) = (dealt_by IS NULL) AND (dealt IS NULL) = (dealt_at IS NULL)),
    CHECK (replayed_as IS NULL OR dealt = 'replayed')
) STRICT;
CREATE INDEX dead_letters_open ON dead_letters (number) WHERE dealt IS NULL;
CREATE INDEX dead_letters_answered ON dead_letters (number) WHERE answered = 1;
-- What an open breaker has put aside is counted by its origin and action.
CREATE INDEX dead_letters_aside ON dead_letters (issuer, action) WHERE dealt IS NULL AND reason = 'breaker_open';

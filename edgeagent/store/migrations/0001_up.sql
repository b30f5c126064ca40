-- What goes up: readings into numbered streams, with all that keeps them once and in order.

-- Single values of the hub: its epoch, its incarnation, its floor of time.
CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The next number of each stream. A row of its own: rowids start again after a table is drained.
CREATE TABLE streams (
    stream TEXT PRIMARY KEY CHECK (stream IN ('record', 'state', 'telemetry')),
    next   INTEGER NOT NULL CHECK (next >= 1)
) STRICT, WITHOUT ROWID;
INSERT INTO streams (stream, next) VALUES ('record', 1), ('state', 1), ('telemetry', 1);

-- Events that the cloud has not acknowledged. Acknowledged ones are deleted by their numbers.
CREATE TABLE outbox (
    stream      TEXT NOT NULL CHECK (stream IN ('record', 'state', 'telemetry')),
    number      INTEGER NOT NULL CHECK (number >= 1),
    type        TEXT NOT NULL,
    device      TEXT,
    at          INTEGER NOT NULL,  -- microseconds since 1970, the best guess
    error       INTEGER,           -- milliseconds that it may be off; NULL when unknown
    boot        INTEGER NOT NULL,  -- milliseconds since boot
    incarnation INTEGER NOT NULL,
    data        BLOB NOT NULL,     -- the JSON text of the event's data
    traceparent TEXT,              -- the place in a trace, of what a command has caused
    PRIMARY KEY (stream, number)
) STRICT, WITHOUT ROWID;

-- Events that the cloud will never take, kept for a person.
CREATE TABLE outbox_refused (
    stream TEXT NOT NULL,
    number INTEGER NOT NULL,
    type   TEXT NOT NULL,
    device TEXT,
    data   BLOB NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (stream, number)
) STRICT, WITHOUT ROWID;

-- What tells a redelivery from a new message: packet ids and digests of the last messages of each
-- broker session, one row for each commit. 18 bytes a message: packet id, digest.
CREATE TABLE delivery_marks (
    session TEXT NOT NULL,
    batch   INTEGER NOT NULL,
    marks   BLOB NOT NULL CHECK (length(marks) % 18 = 0),
    PRIMARY KEY (session, batch)
) STRICT, WITHOUT ROWID;

-- Admitted devices.
CREATE TABLE devices (
    device      TEXT PRIMARY KEY,
    label       TEXT NOT NULL,
    profile     TEXT NOT NULL,
    parameters  TEXT NOT NULL,  -- JSON, the values of the profile's parameters
    admitted_at TEXT NOT NULL,
    admitted_by TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The state of each device as a whole: grows at each change of a state reading.
CREATE TABLE shadows (
    device  TEXT PRIMARY KEY REFERENCES devices (device) ON DELETE CASCADE,
    version INTEGER NOT NULL CHECK (version >= 0),
    etag    TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Its state readings. `told` is 0 while a change waits for its minimum interval.
CREATE TABLE shadow_readings (
    device   TEXT NOT NULL REFERENCES devices (device) ON DELETE CASCADE,
    reading  TEXT NOT NULL,
    value    TEXT NOT NULL,     -- JSON
    version  INTEGER NOT NULL CHECK (version >= 1),
    at       INTEGER NOT NULL,  -- microseconds since 1970, of the change
    retained INTEGER NOT NULL CHECK (retained IN (0, 1)),
    told     INTEGER NOT NULL CHECK (told IN (0, 1)),
    PRIMARY KEY (device, reading)
) STRICT, WITHOUT ROWID;

-- The audit trail. Each row's hash covers it and its predecessor's hash.
CREATE TABLE audit (
    number  INTEGER PRIMARY KEY CHECK (number >= 1),
    at      TEXT NOT NULL,
    clock   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    subject TEXT NOT NULL,
    actor   TEXT NOT NULL,
    detail  TEXT NOT NULL,
    hash    BLOB NOT NULL CHECK (length(hash) = 32)
) STRICT;
-- What is told of a command after its receipt; the rest of its rows lie between that and its coming. All of
-- them in an index would cost a page more in each commit.
CREATE INDEX audit_afterwards ON audit (subject)
 WHERE kind IN ('command_corrected', 'dead_letter_discarded');

-- The policy in force, as it was signed. One row. Either the envelope of its one signer, or the target of
-- metadata (The Update Framework) that are kept with it: below their versions nothing is taken any more.
CREATE TABLE policy (
    one               INTEGER PRIMARY KEY CHECK (one = 1),
    version           INTEGER NOT NULL CHECK (version >= 1),
    envelope          BLOB,
    target            BLOB,
    pin               TEXT,                       -- the sha256 of the root that it all goes back to
    root              BLOB,
    timestamp         BLOB,
    snapshot          BLOB,
    targets           BLOB,
    root_version      INTEGER,
    timestamp_version INTEGER,
    snapshot_version  INTEGER,
    targets_version   INTEGER,
    taken_at          INTEGER,                    -- microseconds since 1970, the best guess
    until             INTEGER,                    -- the first end of the metadata
    is_over           INTEGER NOT NULL DEFAULT 0 CHECK (is_over IN (0, 1)),  -- that its time is, is on record
    CHECK ((envelope IS NULL) <> (target IS NULL)),
    CHECK ((target IS NULL) = (pin IS NULL) AND (target IS NULL) = (root IS NULL)
       AND (target IS NULL) = (timestamp IS NULL) AND (target IS NULL) = (snapshot IS NULL)
       AND (target IS NULL) = (targets IS NULL) AND (target IS NULL) = (until IS NULL) AND (target IS NULL) = (taken_at IS NULL)
       AND (target IS NULL) = (root_version IS NULL) AND (target IS NULL) = (timestamp_version IS NULL)
       AND (target IS NULL) = (snapshot_version IS NULL) AND (target IS NULL) = (targets_version IS NULL))
) STRICT;

-- What hubs have sent up, and what waits to go down. An event or command is here before its sender is
-- told so; what is derived from events is written in the commit that stores them.

-- The lives of each hub's database, in the order of their first hello. The last one is current.
CREATE TABLE epochs (
    hub   TEXT NOT NULL,
    epoch TEXT NOT NULL,
    place INTEGER NOT NULL CHECK (place >= 1),
    hello TEXT NOT NULL,             -- the newest hello of that epoch, as CloudEvent
    number INTEGER NOT NULL CHECK (number >= 1),  -- its place in the record stream
    PRIMARY KEY (hub, epoch),
    UNIQUE (hub, place)
) STRICT, WITHOUT ROWID;

-- Which numbers of a stream were stored, first and last inclusive; neither overlapping nor touching. They
-- outlive the events, so that a repeat is known for ever.
CREATE TABLE ranges (
    hub    TEXT NOT NULL,
    epoch  TEXT NOT NULL,
    stream TEXT NOT NULL CHECK (stream IN ('record', 'state', 'telemetry')),
    first  INTEGER NOT NULL CHECK (first >= 1),
    last   INTEGER NOT NULL,
    PRIMARY KEY (hub, epoch, stream, first),
    CHECK (last >= first)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    hub     TEXT NOT NULL,
    epoch   TEXT NOT NULL,
    stream  TEXT NOT NULL CHECK (stream IN ('record', 'state', 'telemetry')),
    number  INTEGER NOT NULL CHECK (number >= 1),
    event   TEXT NOT NULL,           -- the CloudEvent
    PRIMARY KEY (hub, epoch, stream, number)
) STRICT, WITHOUT ROWID;

-- Numbers that will never be taken: known holes.
CREATE TABLE refused_events (
    hub    TEXT NOT NULL,
    epoch  TEXT NOT NULL,
    stream TEXT NOT NULL CHECK (stream IN ('record', 'state', 'telemetry')),
    number INTEGER NOT NULL CHECK (number >= 1),
    reason TEXT NOT NULL,
    PRIMARY KEY (hub, epoch, stream, number)
) STRICT, WITHOUT ROWID;

-- Devices, by their admissions and their states.
CREATE TABLE devices (
    hub     TEXT NOT NULL,
    device  TEXT NOT NULL,
    label   TEXT,                    -- these three are NULL while its admission is not known here
    profile TEXT,
    actions TEXT,                    -- JSON array
    epoch   TEXT,                    -- of the state event that the next three are of
    number  INTEGER,
    version INTEGER,
    etag    TEXT,
    PRIMARY KEY (hub, device),
    CHECK ((version IS NULL) = (etag IS NULL) AND (version IS NULL) = (number IS NULL))
) STRICT, WITHOUT ROWID;

-- The newest value of each reading.
CREATE TABLE readings (
    hub      TEXT NOT NULL,
    device   TEXT NOT NULL,
    reading  TEXT NOT NULL,
    stream   TEXT NOT NULL CHECK (stream IN ('state', 'telemetry')),
    epoch    TEXT NOT NULL,
    number   INTEGER NOT NULL CHECK (number >= 1),
    value    TEXT NOT NULL,          -- JSON
    version  INTEGER,                -- of a state reading
    retained INTEGER NOT NULL CHECK (retained IN (0, 1)),
    time     TEXT NOT NULL,          -- the event's
    PRIMARY KEY (hub, device, reading)
) STRICT, WITHOUT ROWID;

-- Commands, and orders to the hub itself. The identity of one is its payload; an id names one payload only.
CREATE TABLE commands (
    hub            TEXT NOT NULL,
    command        TEXT NOT NULL,
    payload_sha256 TEXT NOT NULL,
    action         TEXT,             -- NULL of an order
    state          TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'taken', 'final', 'expired', 'refused')),
    accepted_at    TEXT NOT NULL,
    expires_at     INTEGER NOT NULL, -- milliseconds since 1970
    lent           INTEGER NOT NULL DEFAULT 0 CHECK (lent >= 0),
    PRIMARY KEY (hub, command)
) STRICT, WITHOUT ROWID;

-- The devices of each command, and how it ended on each. It is final once it has ended on all.
CREATE TABLE results (
    hub     TEXT NOT NULL,
    command TEXT NOT NULL,
    device  TEXT NOT NULL,           -- empty for the hub itself, of an order
    place   INTEGER NOT NULL CHECK (place >= 1),  -- in the command's list
    event   TEXT,                    -- with which the hub ended it, as CloudEvent
    run     INTEGER,                 -- of that event
    PRIMARY KEY (hub, command, device),
    UNIQUE (hub, command, place),
    FOREIGN KEY (hub, command) REFERENCES commands (hub, command),
    CHECK ((event IS NULL) = (run IS NULL))
) STRICT, WITHOUT ROWID;

-- Envelopes on their way to a hub. One command may have several: the same payload with more signatures.
CREATE TABLE deliveries (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,  -- the order of the queue; never given again
    hub      TEXT NOT NULL,
    command  TEXT NOT NULL,
    envelope BLOB NOT NULL,
    sha256   TEXT NOT NULL,          -- of the envelope
    state    TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'settled')),
    handle   TEXT UNIQUE,            -- names this loan; the next loan has another
    boot     TEXT,                   -- the boot of the server in which `until` counts
    until    INTEGER,                -- milliseconds of boot time
    traceparent TEXT,                -- the place in a trace that came beside it
    FOREIGN KEY (hub, command) REFERENCES commands (hub, command),
    UNIQUE (hub, command, sha256),
    -- A loan, its end and its handle appear and disappear together.
    CHECK ((state = 'leased') = (handle IS NOT NULL)),
    CHECK ((handle IS NULL) = (until IS NULL) AND (handle IS NULL) = (boot IS NULL))
) STRICT;

CREATE INDEX deliveries_open ON deliveries (hub, number) WHERE state <> 'settled';

-- What the producer's gate refused: one row for each minute, origin and reason, however many they were.
CREATE TABLE refusals (
    minute TEXT NOT NULL,
    origin TEXT NOT NULL,
    reason TEXT NOT NULL,
    count  INTEGER NOT NULL CHECK (count >= 1),
    sample TEXT,                     -- the id of the first that had one
    PRIMARY KEY (minute, origin, reason)
) STRICT, WITHOUT ROWID;

-- Breakers of the producer's gate: one for each origin and action that was refused too often.
CREATE TABLE breakers (
    origin    TEXT NOT NULL,         -- the key that verified, else the login
    action    TEXT NOT NULL,
    opened_at INTEGER NOT NULL,      -- milliseconds since 1970; a row is an open breaker
    until     INTEGER NOT NULL,      -- from when on a command may try
    PRIMARY KEY (origin, action),
    CHECK (until >= opened_at)
) STRICT, WITHOUT ROWID;

-- The refusals that count towards opening one, while they are new enough to count.
CREATE TABLE breaker_refusals (
    number INTEGER PRIMARY KEY,
    origin TEXT NOT NULL,
    action TEXT NOT NULL,
    at     INTEGER NOT NULL          -- milliseconds since 1970
) STRICT;

CREATE INDEX breaker_refusals_counted ON breaker_refusals (origin, action, at);

-- What the breakers did, for whoever asks afterwards.
CREATE TABLE breaker_turns (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at     TEXT NOT NULL,
    turn   TEXT NOT NULL CHECK (turn IN ('opened', 'stayed_open', 'closed')),
    origin TEXT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT                      -- of the refusal that opened it or kept it open
) STRICT;

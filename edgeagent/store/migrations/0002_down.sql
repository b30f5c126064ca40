-- What comes down: commands, the locks under which they are worked, what became of them.

-- Every command that passed the signatures, one row for each of its devices and each run there. Rows stay
-- after their end, as the memory that answers a replay, until they are certainly too old to be asked again;
-- `core/lifecycle` has the states and their moves.
CREATE TABLE inbox (
    run            INTEGER PRIMARY KEY CHECK (run >= 1),  -- explicit, in the order of arrival
    command        TEXT NOT NULL,
    ordinal        INTEGER NOT NULL CHECK (ordinal >= 1), -- the how-manieth run of it on the device
    device         TEXT NOT NULL,
    issuer         TEXT NOT NULL,
    signers        TEXT NOT NULL,             -- JSON: the keys that are known to have signed it
    sequence       INTEGER NOT NULL,
    action         TEXT NOT NULL,
    slot           TEXT,
    lane           TEXT NOT NULL CHECK (lane IN ('low', 'medium', 'high')),
    operation      TEXT NOT NULL,             -- its key
    sha256         TEXT NOT NULL,             -- of the payload
    envelope       BLOB,                      -- as it came; NULL: that of `envelope_of`
    envelope_of    INTEGER REFERENCES inbox (run),
    expires_at     INTEGER NOT NULL,          -- microseconds since 1970
    begins_at      INTEGER NOT NULL,          -- the same: until then it is of the future
    local_boot     TEXT,                      -- of a command typed at this hub: the boot and the
    local_until    INTEGER,                   -- milliseconds of boot time until which it is good
    actor          TEXT NOT NULL,             -- a key id, or who typed it
    state          TEXT NOT NULL CHECK (state IN (
        'held', 'queued', 'waiting', 'running', 'succeeded', 'refused', 'superseded', 'cancelled',
        'expired', 'failed', 'rolled_back', 'rollback_failed', 'unknown')),
    reason         TEXT,
    received_at    INTEGER NOT NULL,          -- microseconds since 1970, the best guess
    available_at   INTEGER,                   -- milliseconds of boot time, of a waiting row; NULL: on an event
    available_boot TEXT,
    attempts       INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    sent           INTEGER NOT NULL DEFAULT 0 CHECK (sent IN (0, 1)),
    force_refresh  INTEGER NOT NULL DEFAULT 0 CHECK (force_refresh IN (0, 1)),
    last_error     TEXT,
    lease          INTEGER NOT NULL CHECK (lease > 0),    -- milliseconds that a lock for it holds unrenewed
    parent         TEXT,                      -- what it occupies beside its device, and with how many at once
    parent_most    INTEGER CHECK (parent_most >= 1),
    losses         INTEGER NOT NULL DEFAULT 0 CHECK (losses >= 0),  -- how often whoever worked it was gone
    replay_of      INTEGER,                   -- the run of which a person had this one made
    traceparent    TEXT,                      -- as it came beside the envelope; nobody has signed it
    since          INTEGER NOT NULL,          -- the last row of the trail that was before it came
    UNIQUE (command, device, ordinal),
    CHECK ((replay_of IS NULL) = (ordinal = 1)),
    CHECK ((envelope IS NULL) = (envelope_of IS NOT NULL)),
    CHECK ((local_boot IS NULL) = (local_until IS NULL)),
    CHECK ((parent IS NULL) = (parent_most IS NULL)),
    CHECK (sent = 0 OR state NOT IN ('superseded', 'cancelled', 'expired', 'refused')),
    CHECK (available_at IS NULL OR (state = 'waiting' AND available_boot IS NOT NULL))
) STRICT;

-- A sequence number is used once per issuer and device, however often its command is run.
CREATE UNIQUE INDEX inbox_sequence ON inbox (issuer, device, sequence) WHERE ordinal = 1;
-- Which is over next: by the wall clock, and of those typed here by boot time.
CREATE INDEX inbox_open ON inbox (expires_at) WHERE state IN ('held', 'queued', 'waiting', 'running');
CREATE INDEX inbox_here ON inbox (local_until)
 WHERE local_boot IS NOT NULL AND state IN ('held', 'queued', 'waiting', 'running');
-- Final rows too: whether a later command has come is asked of every one.
CREATE INDEX inbox_slot ON inbox (device, slot, issuer, sequence);
-- Which are old enough to be forgotten.
CREATE INDEX inbox_over ON inbox (expires_at) WHERE state NOT IN ('held', 'queued', 'waiting', 'running');

-- Whose envelope is that of others too: it is forgotten after them.
CREATE INDEX inbox_shared ON inbox (envelope_of) WHERE envelope_of IS NOT NULL;

-- What is asked for every claim, however many commands are over.
CREATE INDEX inbox_queued ON inbox (lane, issuer, device, run) WHERE state = 'queued';
-- What may still be superseded. Without it each command looked through all earlier ones of its slot.
CREATE INDEX inbox_open_slot ON inbox (device, slot, issuer, sequence)
 WHERE state IN ('held', 'queued', 'waiting') AND slot IS NOT NULL;
CREATE INDEX inbox_queued_slot ON inbox (device, slot, run) WHERE state = 'queued' AND slot IS NOT NULL;
CREATE INDEX inbox_running ON inbox (lane) WHERE state = 'running';
CREATE INDEX inbox_waiting ON inbox (lane, available_at) WHERE state = 'waiting';

-- What is asked whenever something has changed, however many commands wait for something else.
CREATE INDEX inbox_on_event ON inbox (reason, device, run) WHERE state = 'waiting' AND available_at IS NULL;
CREATE INDEX inbox_unsure ON inbox (run)
 WHERE state IN ('held', 'waiting') AND available_at IS NULL
   AND reason IN ('clock_unsure', 'not_yet_valid', 'needs_approval', 'outcome_unknown');
CREATE INDEX inbox_ahead ON inbox (begins_at)
 WHERE state IN ('held', 'waiting') AND available_at IS NULL AND reason = 'not_yet_valid';
CREATE INDEX inbox_held ON inbox (issuer) WHERE state = 'held';

-- Who is next: the issuers of a lane take turns, and the devices for which one of them has queued commands.
CREATE TABLE turns (
    lane   TEXT NOT NULL,
    issuer TEXT NOT NULL,
    turn   INTEGER NOT NULL,
    PRIMARY KEY (lane, issuer)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX turns_next ON turns (lane, turn);
CREATE TABLE lines (
    lane   TEXT NOT NULL,
    issuer TEXT NOT NULL,
    device TEXT NOT NULL,
    turn   INTEGER NOT NULL,
    PRIMARY KEY (lane, issuer, device)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX lines_next ON lines (lane, issuer, turn);

-- The one lease there is, also of what is occupied beside the device. The row of a device stays when its
-- lock is free, for its fence.
CREATE TABLE locks (
    device      TEXT PRIMARY KEY,
    fence       INTEGER NOT NULL CHECK (fence >= 1),
    run         INTEGER REFERENCES inbox (run),
    holder      TEXT,
    token       TEXT,
    lease_until INTEGER,  -- milliseconds of boot time
    boot        TEXT,
    incarnation INTEGER,
    parent      TEXT,
    parent_most INTEGER,
    since       INTEGER,  -- milliseconds of boot time at which it was taken
    CHECK ((parent IS NULL) = (parent_most IS NULL) AND (token IS NULL) = (since IS NULL)
       AND (parent IS NULL OR token IS NOT NULL)),
    CHECK ((token IS NULL) = (run IS NULL) AND (token IS NULL) = (lease_until IS NULL)
       AND (token IS NULL) = (boot IS NULL) AND (token IS NULL) = (incarnation IS NULL)
       AND (token IS NULL) = (holder IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX locks_run ON locks (run) WHERE run IS NOT NULL;
CREATE INDEX locks_parent ON locks (parent) WHERE parent IS NOT NULL;

-- What issuers mean to happen once.
CREATE TABLE operations (
    key     TEXT PRIMARY KEY,
    state   TEXT NOT NULL CHECK (state IN ('processing', 'completed', 'failed', 'unknown')),
    command TEXT NOT NULL,
    run     INTEGER NOT NULL,
    until   INTEGER NOT NULL  -- microseconds since 1970: the latest expiry of a command that said it
) STRICT, WITHOUT ROWID;
CREATE INDEX operations_over ON operations (until) WHERE state <> 'processing';

-- The final result of each run, under the event that told it: a replay is answered with the same one.
CREATE TABLE receipts (
    run         INTEGER PRIMARY KEY REFERENCES inbox (run) ON DELETE CASCADE,
    number      INTEGER NOT NULL,  -- in the stream `record`
    device      TEXT NOT NULL,
    at          INTEGER NOT NULL,
    error       INTEGER,
    boot        INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    data        BLOB NOT NULL,
    traceparent TEXT,
    audit       INTEGER NOT NULL,  -- the row of the trail that tells the same
    uploaded_at INTEGER            -- microseconds since 1970, the best guess: when the cloud had it first
) STRICT;

-- Which receipts an upload has proven: only those that none has before are looked through.
CREATE INDEX receipts_told ON receipts (number) WHERE uploaded_at IS NULL;

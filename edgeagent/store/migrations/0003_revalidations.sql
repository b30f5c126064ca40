-- Devices that are to be read afresh, since a command was decided on a state that they are not in any
-- more. One row for each device, however often it was asked for; it goes when the device is forgotten.
CREATE TABLE revalidations (
    device   TEXT PRIMARY KEY REFERENCES devices (device) ON DELETE CASCADE,
    run      INTEGER NOT NULL,            -- of the last command that was stale
    command  TEXT NOT NULL,
    attempts INTEGER NOT NULL CHECK (attempts >= 0),
    due_at   INTEGER,                     -- milliseconds of boot time of the next try; NULL: at once
    due_boot TEXT,
    CHECK ((due_at IS NULL) = (due_boot IS NULL))
) STRICT, WITHOUT ROWID;

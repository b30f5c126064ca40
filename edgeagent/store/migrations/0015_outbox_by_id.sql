-- The outbox, made so that a commit of readings touches as few pages as it can: each is written whole, and a
-- card is worn by pages. Rows come in at the end of a table of integers, which fills its pages one after the
-- other; in one of (stream, number) every twelfth row had three pages written anew.

-- From here on `streams.next` may lag behind what is in the outbox: the next number is the greater of it and of
-- the one after the stream's last row. It is raised when that row goes (`store/outbox.py`).
ALTER TABLE outbox RENAME TO outbox_before;

CREATE TABLE outbox (
    stream      TEXT GENERATED ALWAYS AS (
                    CASE id >> 56 WHEN 0 THEN 'record' WHEN 1 THEN 'state' WHEN 2 THEN 'telemetry' END) VIRTUAL,
    number      INTEGER GENERATED ALWAYS AS (id & 0x00ffffffffffffff) VIRTUAL,
    type        TEXT NOT NULL,
    device      TEXT,
    at          INTEGER NOT NULL,  -- microseconds since 1970, the best guess
    error       INTEGER,           -- milliseconds that it may be off; NULL when unknown
    boot        INTEGER NOT NULL,  -- milliseconds since boot
    incarnation INTEGER NOT NULL,
    data        BLOB NOT NULL,     -- the JSON text of the event's data
    traceparent TEXT,              -- the place in a trace, of what a command has caused
    -- The place of the stream times 2^56, and the number in it. Given, never SQLite's own.
    id          INTEGER PRIMARY KEY,
    -- The delivery marks of the commit in which it came, and the how-manieth of its session that was. On one
    -- event of that commit; they go to `delivery_marks` when it goes.
    marks_batch INTEGER,
    marks       BLOB CHECK (length(marks) % 18 = 0),
    CHECK (stream IS NOT NULL AND number >= 1),
    CHECK ((marks_batch IS NULL) = (marks IS NULL) AND (marks IS NULL OR stream <> 'record'))
) STRICT;

INSERT INTO outbox (id, type, device, at, error, boot, incarnation, data, traceparent)
SELECT (CASE stream WHEN 'record' THEN 0 WHEN 'state' THEN 1 ELSE 2 END << 56) | number,
       type, device, at, error, boot, incarnation, data, traceparent
  FROM outbox_before ORDER BY stream, number;

DROP TABLE outbox_before;

-- With which commit of readings the session began that the broker keeps. Marks of earlier ones are of one that
-- it has lost: they count no more, wherever they lie.
CREATE TABLE delivery_sessions (
    session TEXT PRIMARY KEY,
    begins  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who hubs are: claim codes that wait or were used, and the certificates that count.

-- Of a claim's secret only the sha256 is kept: 128 bits of chance, which nobody searches.
CREATE TABLE claims (
    secret TEXT PRIMARY KEY,
    hub    TEXT NOT NULL,
    state  TEXT NOT NULL CHECK (state IN ('waiting', 'used', 'revoked')),
    made   INTEGER NOT NULL,         -- milliseconds since 1970
    by     TEXT NOT NULL,            -- the login that made it
    until  INTEGER NOT NULL,         -- milliseconds since 1970
    key    TEXT,                     -- sha256 of the public key that has used it
    serial TEXT,                     -- of the certificate that was given for it
    used   INTEGER,                  -- milliseconds since 1970
    CHECK ((state = 'used') = (key IS NOT NULL)),
    CHECK ((key IS NULL) = (serial IS NULL) AND (key IS NULL) = (used IS NULL))
) STRICT, WITHOUT ROWID;

-- One code at a time waits for a hub.
CREATE UNIQUE INDEX claims_waiting ON claims (hub) WHERE state = 'waiting';

CREATE TABLE certificates (
    serial TEXT PRIMARY KEY,
    hub    TEXT NOT NULL,
    state  TEXT NOT NULL CHECK (state IN ('new', 'current', 'previous', 'replaced', 'revoked')),
    key    TEXT NOT NULL,            -- sha256 of its public key: the same request gets the same answer
    chain  TEXT NOT NULL,            -- PEM
    begins INTEGER NOT NULL,         -- milliseconds since 1970
    ends   INTEGER NOT NULL,         -- milliseconds since 1970
    issued INTEGER NOT NULL,         -- milliseconds since 1970
    CHECK (ends > begins)
) STRICT, WITHOUT ROWID;

CREATE INDEX certificates_of ON certificates (hub, state);
CREATE UNIQUE INDEX certificates_one ON certificates (hub, state) WHERE state IN ('new', 'current', 'previous');

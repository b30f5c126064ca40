-- What hubs have said of their audit trails: the head of each, as it rode in uploads.

-- The newest heads. One that is said again is one row.
CREATE TABLE heads (
    hub    TEXT NOT NULL,
    epoch  TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number >= 0),
    hash   TEXT NOT NULL,
    seen   TEXT NOT NULL,            -- when it was first said
    PRIMARY KEY (hub, epoch, number)
) STRICT, WITHOUT ROWID;

-- Heads that do not fit those before: a trail was rewritten, cut, or set back.
CREATE TABLE forks (
    hub    TEXT NOT NULL,
    epoch  TEXT NOT NULL,
    number INTEGER NOT NULL,
    hash   TEXT NOT NULL,
    known  INTEGER NOT NULL,         -- the number of the head that it does not fit
    seen   TEXT NOT NULL,
    PRIMARY KEY (hub, epoch, number, hash)
) STRICT, WITHOUT ROWID;

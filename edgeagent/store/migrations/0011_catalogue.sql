-- What is signed of artifacts, as it was taken with the policy: the metadata of each delegated role, byte for
-- byte, so that none goes back behind them (The Update Framework, 5.6.7).
CREATE TABLE catalogue_roles (
    role     TEXT PRIMARY KEY,
    metadata BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- What those say. One that is signed for no more stays, so that it is known as revoked and its id is not given
-- to another file.
CREATE TABLE artifacts (
    artifact     TEXT PRIMARY KEY,
    models       TEXT NOT NULL,          -- the group of models whose role signs for it
    role_version INTEGER NOT NULL CHECK (role_version >= 1),
    until        INTEGER NOT NULL,       -- microseconds since 1970: the end of those metadata
    sha256       TEXT NOT NULL CHECK (length(sha256) = 64),
    length       INTEGER NOT NULL CHECK (length >= 1),
    facts        BLOB NOT NULL,          -- what is said of it, JSON
    is_revoked   INTEGER NOT NULL CHECK (is_revoked IN (0, 1))
) STRICT, WITHOUT ROWID;

-- The earliest version that is installed on a model; by group, whose keys take it back when they are replaced.
CREATE TABLE artifact_floors (
    models  TEXT NOT NULL,
    family  TEXT NOT NULL,
    model   TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (models, family, model)
) STRICT, WITHOUT ROWID;

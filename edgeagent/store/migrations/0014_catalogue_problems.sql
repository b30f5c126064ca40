-- What of the catalogue is not believed: groups whose metadata are refused, so that nothing of theirs is
-- installed until they are mended, and ids to which two groups gave a file at once.
CREATE TABLE catalogue_problems (
    about TEXT NOT NULL CHECK (about IN ('group', 'artifact')),
    name  TEXT NOT NULL,
    why   TEXT NOT NULL,
    PRIMARY KEY (about, name)
) STRICT, WITHOUT ROWID;

-- The credential to which the name of a worker belongs, as JSON.
CREATE TABLE name_owner (
    worker TEXT PRIMARY KEY,
    owner  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Secrets of owners, encrypted with a key that is not here.
CREATE TABLE secret (
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    set_at_ms  INTEGER NOT NULL,
    set_by     TEXT,
    used_at_ms INTEGER,
    key        TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;

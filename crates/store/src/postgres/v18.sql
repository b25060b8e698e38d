-- Secrets of owners, encrypted with a key that is not here.
CREATE TABLE secret (
    owner      TEXT COLLATE "C",
    name       TEXT COLLATE "C",
    version    BIGINT NOT NULL,
    set_at_ms  BIGINT NOT NULL,
    set_by     TEXT,
    used_at_ms BIGINT,
    key        TEXT NOT NULL,
    sealed     BYTEA NOT NULL,
    PRIMARY KEY (owner, name)
)

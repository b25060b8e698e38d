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
);

-- How far each follower of facts has looked at them; until now only that of notifications.
CREATE TABLE follower (
    name TEXT COLLATE "C" PRIMARY KEY,
    seq  BIGINT NOT NULL
);

INSERT INTO follower (name, seq) SELECT 'notifications', seq FROM notice_position;

DROP TABLE notice_position;

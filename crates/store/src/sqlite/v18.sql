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

-- How far each follower of facts has looked at them; until now only that of notifications.
CREATE TABLE follower (
    name TEXT PRIMARY KEY,
    seq  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO follower (name, seq) SELECT 'notifications', seq FROM notice_position;

DROP TABLE notice_position;

-- The last measurements of each task, one after the other, each as long as any other, and what its last attempt had
-- requested, as JSON. Without a workflow, or for the runs of one as a whole, that name is empty.
CREATE TABLE task_usage (
    owner      TEXT    NOT NULL,
    workflow   TEXT    NOT NULL,
    task       TEXT    NOT NULL,
    attempts   INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    requested  TEXT    NOT NULL,
    samples    TEXT    NOT NULL,
    PRIMARY KEY (owner, workflow, task)
) STRICT;
CREATE INDEX task_usage_by_change ON task_usage (changed_ms);

-- If a limit is a rate of starts: its count and its period, as JSON; the total is then its burst.
ALTER TABLE cluster_limit ADD COLUMN rate TEXT;

-- Concurrency limits of arrays that were changed after their submission; NULL if there is none any more.
CREATE TABLE array_limit (
    first INTEGER PRIMARY KEY,
    last  INTEGER NOT NULL,
    total INTEGER
) STRICT;

-- The weights of owners among fair turns, other than 1.
CREATE TABLE share (
    owner  TEXT PRIMARY KEY,
    weight INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

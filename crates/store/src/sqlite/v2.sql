-- Stores of the first days of version 1 have no tokens.
CREATE TABLE IF NOT EXISTS token (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL,
    role          TEXT    NOT NULL,
    hash          BLOB    NOT NULL UNIQUE,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    revoked       INTEGER NOT NULL
) STRICT;
-- Whose things a token is for only.
ALTER TABLE token ADD COLUMN owner TEXT;

-- The library: its tasks, each with all of its revisions.

-- A task that was removed keeps its row, so that neither its number nor the count of its
-- revisions is used again. Every due time up to accounted_ms has its record.
CREATE TABLE task (
    number        INTEGER PRIMARY KEY,
    owner         TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    revision      INTEGER NOT NULL,
    defined       INTEGER NOT NULL,
    accounted_ms  INTEGER NOT NULL,
    UNIQUE (owner, name)
) STRICT;

-- Definitions, as JSON. Never changed.
CREATE TABLE revision (
    task     INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL,
    body     TEXT    NOT NULL,
    PRIMARY KEY (task, revision)
) STRICT, WITHOUT ROWID;

-- What requests with a key have brought about, in the order in which they came. The oldest
-- go when there are too many.
CREATE TABLE request (
    number   INTEGER PRIMARY KEY,
    task     INTEGER NOT NULL,
    high     INTEGER NOT NULL,
    low      INTEGER NOT NULL,
    request  INTEGER NOT NULL,
    instance INTEGER NOT NULL,
    UNIQUE (task, high, low)
) STRICT;

-- Facts about a task: its revisions, and what became of its due times.
ALTER TABLE wide ADD COLUMN task INTEGER;
CREATE INDEX wide_tasks ON wide (task, seq) WHERE task IS NOT NULL;

-- The whole history in order, for those who follow it.
CREATE INDEX history_by_seq ON history (seq);

-- The last of the facts that are not kept any more, so that whoever goes on from an earlier
-- one can be told that there are gaps. What was pruned before is not known: if anything was,
-- it may have been any of them.
ALTER TABLE totals ADD COLUMN pruned_seq INTEGER NOT NULL DEFAULT 0;
UPDATE totals SET pruned_seq = last_seq
    WHERE (SELECT count(*) FROM history) + (SELECT count(*) FROM wide) < last_seq;

-- When the open lease was granted.
ALTER TABLE instance ADD COLUMN leased_at_ms INTEGER;

-- What was used, by hours since 1970. Claims are core milliseconds and MiB milliseconds.
CREATE TABLE usage (
    hour           INTEGER NOT NULL,
    owner          TEXT    NOT NULL,
    done           INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    halted         INTEGER NOT NULL,
    attempts       INTEGER NOT NULL,
    cpu_claimed    INTEGER NOT NULL,
    memory_claimed INTEGER NOT NULL,
    cpu_used_ms    INTEGER NOT NULL,
    waited_ms      INTEGER NOT NULL,
    PRIMARY KEY (hour, owner)
) STRICT, WITHOUT ROWID;

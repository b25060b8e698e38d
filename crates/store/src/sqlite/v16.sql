-- The fleet whose pilots a token is for only.
ALTER TABLE token ADD COLUMN fleet TEXT;

-- The members of the gang under the open lease other than its holder, as JSON, and which of them was lost; NULL if
-- the attempt takes one worker.
ALTER TABLE instance ADD COLUMN lease_gang TEXT;

-- Notifications: how far facts were looked at, what is remembered between them, the notices, and their deliveries.
CREATE TABLE notice_position (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;

CREATE TABLE notice_state (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE notice (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL UNIQUE,
    kind  TEXT NOT NULL,
    owner TEXT,
    at_ms INTEGER NOT NULL,
    body  TEXT NOT NULL
) STRICT;

CREATE TABLE delivery (
    notice     INTEGER NOT NULL,
    channel    TEXT NOT NULL,
    series     TEXT NOT NULL,
    state      TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    next_ms    INTEGER NOT NULL,
    changed_ms INTEGER NOT NULL,
    error      TEXT,
    PRIMARY KEY (notice, channel)
) STRICT, WITHOUT ROWID;

CREATE INDEX delivery_waiting ON delivery (channel, series, notice) WHERE state = 'waiting';

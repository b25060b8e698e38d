-- The fleet whose pilots a token is for only.
ALTER TABLE token ADD COLUMN fleet TEXT COLLATE "C";

-- The members of the gang under the open lease other than its holder, as JSON, and which of them was lost; NULL if
-- the attempt takes one worker.
ALTER TABLE instance ADD COLUMN lease_gang TEXT;

-- Notifications: how far facts were looked at, what is remembered between them, the notices, and their deliveries.
CREATE TABLE notice_position (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    seq BIGINT NOT NULL
);

CREATE TABLE notice_state (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL
);

CREATE TABLE notice (
    id    BIGINT PRIMARY KEY,
    name  TEXT NOT NULL UNIQUE,
    kind  TEXT NOT NULL,
    owner TEXT,
    at_ms BIGINT NOT NULL,
    body  TEXT NOT NULL
);

CREATE TABLE delivery (
    notice     BIGINT NOT NULL,
    channel    TEXT NOT NULL,
    series     TEXT NOT NULL,
    state      TEXT NOT NULL,
    attempts   BIGINT NOT NULL,
    next_ms    BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    error      TEXT,
    PRIMARY KEY (notice, channel)
);

CREATE INDEX delivery_waiting ON delivery (channel, series, notice) WHERE state = 'waiting'

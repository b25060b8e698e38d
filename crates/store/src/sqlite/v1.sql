-- Numbers that Baton draws from the whole of 64 bits (ids, lineages, hosts, boots)
-- are kept as signed ones with the same bits.

-- Who leads. Every write checks the epoch in its own transaction.
CREATE TABLE leader (
    one      INTEGER PRIMARY KEY CHECK (one = 1),
    epoch    INTEGER NOT NULL,
    renewals INTEGER NOT NULL
) STRICT;
INSERT INTO leader VALUES (1, 0, 0);

CREATE TABLE totals (
    one           INTEGER PRIMARY KEY CHECK (one = 1),
    last_seq      INTEGER NOT NULL,
    history_bytes INTEGER NOT NULL,
    lease_time_ms INTEGER NOT NULL
) STRICT;
INSERT INTO totals VALUES (1, 0, 0, 0);

-- Instances by state, so that nobody has to count them.
CREATE TABLE tally (
    state     TEXT PRIMARY KEY,
    instances INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Every id that was ever submitted, as ranges that do not touch.
CREATE TABLE known (
    first INTEGER PRIMARY KEY,
    last  INTEGER NOT NULL
) STRICT;

-- What was asked for, as JSON. The id is the number of the fact that brought it; uses
-- counts the instances of it that are kept, so that it goes with the last of them.
CREATE TABLE spec (
    id    INTEGER PRIMARY KEY,
    uses  INTEGER NOT NULL,
    name  TEXT    NOT NULL,
    owner TEXT    NOT NULL,
    body  TEXT    NOT NULL
) STRICT;

-- Instances without a story of their own: QUEUED and never leased, or HALTED from
-- there. Known by their last id, so that the usual change, the first one leaving,
-- moves no row. rank: of the living 0, of the ended the negative number of their last
-- fact, so that one index serves every view in its order, and pruning from its end.
CREATE TABLE span (
    last            INTEGER PRIMARY KEY,
    first           INTEGER NOT NULL,
    state           TEXT    NOT NULL,
    rank            INTEGER NOT NULL,
    spec            INTEGER NOT NULL,
    submitted_at_ms INTEGER NOT NULL,
    submitted_seq   INTEGER NOT NULL,
    changed_at_ms   INTEGER NOT NULL,
    changed_seq     INTEGER NOT NULL
) STRICT;
CREATE INDEX span_by_state ON span (state, rank);

-- All others. last_end and again are JSON: how the last attempt ended, and what is
-- different for the next.
CREATE TABLE instance (
    id              INTEGER PRIMARY KEY,
    state           TEXT    NOT NULL,
    rank            INTEGER NOT NULL,
    spec            INTEGER NOT NULL,
    submitted_at_ms INTEGER NOT NULL,
    submitted_seq   INTEGER NOT NULL,
    changed_at_ms   INTEGER NOT NULL,
    changed_seq     INTEGER NOT NULL,
    attempts        INTEGER NOT NULL,
    failures        INTEGER NOT NULL,
    losses          INTEGER NOT NULL,
    stop_requested  INTEGER NOT NULL,
    lease_attempt   INTEGER,
    lease_epoch     INTEGER,
    lease_confirmed INTEGER,
    worker          TEXT,
    lineage         INTEGER,
    life            INTEGER,
    host            INTEGER,
    boot            INTEGER,
    again           TEXT,
    last_end        TEXT
) STRICT;
CREATE INDEX instance_by_state ON instance (state, rank);

CREATE TABLE condemned (
    lineage INTEGER PRIMARY KEY,
    life    INTEGER NOT NULL
) STRICT;

-- Workers that get no more work.
CREATE TABLE drained (
    worker TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Facts about one instance, a timeline in one place. Append-only but for retention.
-- The body is the fact as JSON, without the spec that it brought.
CREATE TABLE history (
    instance INTEGER NOT NULL,
    seq      INTEGER NOT NULL,
    epoch    INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL,
    spec     INTEGER,
    body     TEXT    NOT NULL,
    PRIMARY KEY (instance, seq)
) STRICT, WITHOUT ROWID;

-- Facts about a range of instances, or about none.
CREATE TABLE wide (
    seq   INTEGER PRIMARY KEY,
    first INTEGER,
    last  INTEGER,
    epoch INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    spec  INTEGER,
    body  TEXT    NOT NULL
) STRICT;
-- A submission is found by its number, which its instances know; what came to whole
-- ranges later has to be looked for.
CREATE INDEX wide_later ON wide (seq, first, last) WHERE first IS NOT NULL AND spec IS NULL;
CREATE INDEX wide_others ON wide (seq) WHERE first IS NULL;

-- Credentials: what a secret is known by, never the secret. An id is not used again.
CREATE TABLE token (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT    NOT NULL,
    role          TEXT    NOT NULL,
    hash          BLOB    NOT NULL UNIQUE,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    revoked       INTEGER NOT NULL
) STRICT;

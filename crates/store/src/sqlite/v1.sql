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

-- position: of the living their id, of the ended the negative of their last fact's
-- number; so one index serves every view in its order, and pruning from its end.
CREATE TABLE instance (
    id              INTEGER PRIMARY KEY,
    state           TEXT    NOT NULL,
    position        INTEGER NOT NULL,
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
    submitted_at_ms INTEGER NOT NULL,
    changed_at_ms   INTEGER NOT NULL,
    changed_seq     INTEGER NOT NULL,
    spec            TEXT    NOT NULL
) STRICT;
CREATE INDEX instance_by_state ON instance (state, position);

CREATE TABLE condemned (
    lineage INTEGER PRIMARY KEY,
    life    INTEGER NOT NULL
) STRICT;

-- Append-only but for retention. The body is the fact as JSON.
CREATE TABLE history (
    seq      INTEGER PRIMARY KEY,
    instance INTEGER,
    epoch    INTEGER NOT NULL,
    at_ms    INTEGER NOT NULL,
    body     TEXT    NOT NULL
) STRICT;
CREATE INDEX history_by_instance ON history (instance);

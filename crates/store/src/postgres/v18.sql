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

-- The last measurements of each task, one after the other, each as long as any other, and what its last attempt had
-- requested, as JSON. Without a workflow, or for the runs of one as a whole, that name is empty.
CREATE TABLE task_usage (
    owner      TEXT COLLATE "C",
    workflow   TEXT COLLATE "C",
    task       TEXT COLLATE "C",
    attempts   BIGINT NOT NULL,
    changed_ms BIGINT NOT NULL,
    requested  TEXT   NOT NULL,
    samples    TEXT   NOT NULL,
    PRIMARY KEY (owner, workflow, task)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_limit = 2000);
CREATE INDEX task_usage_by_change ON task_usage (changed_ms);

-- If a limit is a rate of starts: its count and its period, as JSON; the total is then its burst.
ALTER TABLE cluster_limit ADD COLUMN rate TEXT;

-- Concurrency limits of arrays that were changed after their submission; NULL if there is none any more.
CREATE TABLE array_limit (
    first BIGINT PRIMARY KEY,
    last  BIGINT NOT NULL,
    total BIGINT
);

-- The weights of owners among fair turns, other than 1.
CREATE TABLE share (
    owner  TEXT COLLATE "C" PRIMARY KEY,
    weight BIGINT NOT NULL
)

-- Runs of workflows.

-- Where each stands. plan: the generation that brought the plan in force. changed: when its
-- last fact was recorded.
CREATE TABLE run (
    id           INTEGER PRIMARY KEY,
    name         TEXT    NOT NULL,
    owner        TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    plan         INTEGER NOT NULL,
    halting      TEXT,
    cause        TEXT,
    submitted_ms INTEGER NOT NULL,
    begun_ms     INTEGER NOT NULL,
    changed_ms   INTEGER NOT NULL
) STRICT;
CREATE INDEX run_by_state ON run (state, id);
CREATE INDEX run_by_end ON run (changed_ms)
    WHERE state IN ('DONE', 'FAILED', 'HALTED', 'ABORTED');

-- Plans as JSON, in the parts in which they came: part is the number of the fact.
CREATE TABLE plan (
    part       INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    body       TEXT    NOT NULL
) STRICT;
CREATE INDEX plan_of_run ON plan (run, generation, part);

-- Items whose instances have ended, under the plan of that generation. What has not begun needs
-- no row, what is on its way is an instance.
CREATE TABLE item (
    run        INTEGER NOT NULL,
    plan       INTEGER NOT NULL,
    task       INTEGER NOT NULL,
    item       INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    end        TEXT    NOT NULL,
    instance   INTEGER NOT NULL,
    outputs    TEXT,
    PRIMARY KEY (run, plan, task, item)
) STRICT, WITHOUT ROWID;
-- What went wrong is looked for among a million items that did not.
CREATE INDEX item_not_done ON item (run, plan, end, task, item) WHERE end <> 'done';

-- Runs that are gone, of which some items are not yet. Nobody must find half of a run and carry
-- it on.
CREATE TABLE leftover (
    run INTEGER PRIMARY KEY
) STRICT;

-- The last run that there ever was, so that no id is used again.
ALTER TABLE totals ADD COLUMN last_run INTEGER NOT NULL DEFAULT 0;

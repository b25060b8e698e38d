-- Launched due times, so that no backfill launches one again. Of the oldest ones of an entry only
-- launches_since_ms is left: it may have launched anything before.
CREATE TABLE launch (
    task       INTEGER NOT NULL,
    nominal_ms INTEGER NOT NULL,
    instance   INTEGER,
    run        INTEGER,
    backfill   INTEGER,
    PRIMARY KEY (task, nominal_ms)
) STRICT, WITHOUT ROWID;
CREATE INDEX launch_by_backfill ON launch (backfill, nominal_ms) WHERE backfill IS NOT NULL;
ALTER TABLE task ADD COLUMN launches INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task ADD COLUMN launches_since_ms INTEGER NOT NULL DEFAULT 0;

-- Backfills as JSON; open until they are DONE.
CREATE TABLE backfill (
    id   INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    open INTEGER NOT NULL,
    body TEXT    NOT NULL
) STRICT;
CREATE INDEX backfill_open ON backfill (task, id) WHERE open;

-- The due times of a running backfill that had a launch when it started, as a JSON list. Beside its
-- row, which every launch rewrites.
CREATE TABLE backfill_taken (
    backfill INTEGER PRIMARY KEY,
    body     TEXT NOT NULL
) STRICT;

-- What the history still tells.
INSERT OR IGNORE INTO launch (task, nominal_ms, instance, run)
    SELECT task, body ->> '$."tick-recorded".first', body ->> '$."tick-recorded".instance',
           body ->> '$."tick-recorded".run'
    FROM wide
    WHERE task IS NOT NULL AND body -> '$."tick-recorded"' IS NOT NULL
        AND coalesce(body ->> '$."tick-recorded".instance', body ->> '$."tick-recorded".run') IS NOT NULL
        AND body ->> '$."tick-recorded".after' IS NULL
        AND body ->> '$."tick-recorded".after_run' IS NULL;
UPDATE task SET launches_since_ms =
        coalesce((SELECT min(nominal_ms) FROM launch WHERE task = number), accounted_ms + 1)
    WHERE (SELECT pruned_seq FROM totals) > 0;

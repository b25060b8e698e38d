-- Fleets, and the jobs that were requested of them, as JSON. Of those that have ended the latest are kept.
CREATE TABLE fleet (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE fleet_job (
    id    INTEGER PRIMARY KEY,
    fleet TEXT NOT NULL,
    open  INTEGER NOT NULL,
    body  TEXT NOT NULL
) STRICT;

CREATE INDEX fleet_job_by_fleet ON fleet_job (fleet, id);
CREATE INDEX fleet_job_open ON fleet_job (id) WHERE open;

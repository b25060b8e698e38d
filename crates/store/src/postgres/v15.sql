-- Fleets, and the jobs that were requested of them, as JSON. Of those that have ended the latest are kept.
CREATE TABLE fleet (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL
);

CREATE TABLE fleet_job (
    id    BIGINT PRIMARY KEY,
    fleet TEXT NOT NULL,
    open  BOOLEAN NOT NULL,
    body  TEXT NOT NULL
);

CREATE INDEX fleet_job_by_fleet ON fleet_job (fleet, id);
CREATE INDEX fleet_job_open ON fleet_job (id) WHERE open

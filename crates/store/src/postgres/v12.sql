-- The client that has submitted or triggered a run, as JSON. NULL if it is not known: a schedule has launched
-- the run, or an earlier Baton has written it.
ALTER TABLE run ADD COLUMN submitted_by TEXT

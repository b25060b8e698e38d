-- How the attempt under the open lease is to be killed: 0 gracefully, 1 at once; NULL if it is not. An
-- attempt may be killed without a stop of its instance.
ALTER TABLE instance ADD COLUMN lease_kill INTEGER;
UPDATE instance SET lease_kill = 0 WHERE stop_requested AND lease_attempt IS NOT NULL;

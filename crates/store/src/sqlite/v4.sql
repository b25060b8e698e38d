-- Idempotency keys of submissions, too: task is 0 for them. They have created the instances from
-- `instance` to `last`, or a run.
ALTER TABLE request ADD COLUMN last INTEGER;
ALTER TABLE request ADD COLUMN run INTEGER;

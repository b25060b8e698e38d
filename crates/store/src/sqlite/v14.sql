-- The client that has asked for a fact, as JSON; NULL if it is not known, or if the fact follows by itself. Facts
-- of earlier versions carry it themselves.
ALTER TABLE history ADD COLUMN requested_by TEXT;
ALTER TABLE wide ADD COLUMN requested_by TEXT;

UPDATE totals SET history_bytes = history_bytes
    - (SELECT coalesce(sum(octet_length(body)), 0) FROM history)
    - (SELECT coalesce(sum(octet_length(body)), 0) FROM wide);

UPDATE history SET
    requested_by = (SELECT coalesce(value -> '$.requested_by', value -> '$.submitted_by') FROM json_each(body)),
    body = (SELECT json_object(key, json_remove(value, '$.requested_by', '$.submitted_by')) FROM json_each(body))
    WHERE body LIKE '%"requested_by":%' OR body LIKE '%"submitted_by":%';

UPDATE wide SET
    requested_by = (SELECT coalesce(value -> '$.requested_by', value -> '$.submitted_by') FROM json_each(body)),
    body = (SELECT json_object(key, json_remove(value, '$.requested_by', '$.submitted_by')) FROM json_each(body))
    WHERE body LIKE '%"requested_by":%' OR body LIKE '%"submitted_by":%';

UPDATE totals SET history_bytes = history_bytes
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM history)
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM wide);

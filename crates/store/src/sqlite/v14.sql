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

-- One fact for a launch, whatever has caused it. A request did not record the revision: the fact before it, the
-- submission of what it has launched, has it.
UPDATE history SET body = (
    SELECT json_object('launched', json_object(
        'entry', value -> '$.task',
        'revision', coalesce((SELECT s.body ->> '$.origin.revision' FROM history AS h JOIN spec AS s ON s.id = h.spec
            WHERE h.instance = history.instance AND h.seq = history.seq - 1), 0),
        'cause', json_object('request', json_object('source', value -> '$.by', 'key', value -> '$.key')),
        'verdict', 'launch',
        'execution', json_object('instance', value -> '$.instance')))
    FROM json_each(body))
    WHERE body LIKE '{"instance-triggered":%';

UPDATE wide SET body = (
    SELECT json_object('launched', json_object(
        'entry', value -> '$.task',
        'revision', coalesce((SELECT w.body ->> '$."run-registered".origin.revision' FROM wide AS w
            WHERE w.seq = wide.seq - 1), 0),
        'cause', json_object('request', json_object('source', value -> '$.by', 'key', value -> '$.key')),
        'verdict', 'launch',
        'execution', json_object('run', value -> '$.run')))
    FROM json_each(body))
    WHERE body LIKE '{"run-triggered":%';

UPDATE wide SET body = (
    SELECT json_object('launched', json_object(
        'entry', value -> '$.task',
        'revision', value -> '$.revision',
        'cause', json_object('backfill', json_object('backfill', value -> '$.backfill', 'nominal', value -> '$.nominal')),
        'verdict', 'launch',
        'execution', CASE
            WHEN value ->> '$.instance' IS NOT NULL THEN json_object('instance', value -> '$.instance')
            WHEN value ->> '$.run' IS NOT NULL THEN json_object('run', value -> '$.run') END))
    FROM json_each(body))
    WHERE body LIKE '{"backfill-launched":%';

UPDATE wide SET body = (
    SELECT json_object('launched', json_object(
        'entry', value -> '$.task',
        'revision', value -> '$.revision',
        'cause', CASE
            WHEN value ->> '$.after' IS NOT NULL THEN json_object('upstream', json_object(
                'execution', json_object('instance', value -> '$.after'), 'at', value -> '$.first'))
            WHEN value ->> '$.after_run' IS NOT NULL THEN json_object('upstream', json_object(
                'execution', json_object('run', value -> '$.after_run'), 'at', value -> '$.first'))
            ELSE json_object('due', json_object(
                'first', value -> '$.first', 'last', value -> '$.last', 'count', value -> '$.count')) END,
        'verdict', value -> '$.verdict',
        'execution', CASE
            WHEN value ->> '$.instance' IS NOT NULL THEN json_object('instance', value -> '$.instance')
            WHEN value ->> '$.run' IS NOT NULL THEN json_object('run', value -> '$.run') END))
    FROM json_each(body))
    WHERE body LIKE '{"tick-recorded":%';

UPDATE totals SET history_bytes = history_bytes
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM history)
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM wide);

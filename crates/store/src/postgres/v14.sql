-- The client that has asked for a fact, as JSON; NULL if it is not known, or if the fact follows by itself. Facts
-- of earlier versions carry it themselves, in their last field. It is moved as text: PostgreSQL's JSON functions
-- refuse a fact with the character 0 in it.
ALTER TABLE history ADD COLUMN requested_by TEXT;
ALTER TABLE wide ADD COLUMN requested_by TEXT;

CREATE FUNCTION requester(body TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT substring(body FROM ',"(?:requested|submitted)_by":("trigger-secret"|'
        '\{"(?:token":\{"id":[0-9]+,|certificate":\{|unauthenticated":\{)"name":"(?:[^"\\]|\\.)*"\}\})\}\}$')
$$;

CREATE FUNCTION without_last_field(body TEXT, name TEXT, value TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN right(body, length(field)) = field THEN left(body, -length(field)) || '}}' ELSE body END
    FROM (SELECT ',"' || name || '":' || value || '}}' AS field) AS last
$$;

UPDATE totals SET history_bytes = history_bytes
    - (SELECT coalesce(sum(octet_length(body)), 0) FROM history)
    - (SELECT coalesce(sum(octet_length(body)), 0) FROM wide);

UPDATE history SET requested_by = requester(body)
    WHERE body LIKE '%"requested\_by":%' OR body LIKE '%"submitted\_by":%';
UPDATE wide SET requested_by = requester(body)
    WHERE body LIKE '%"requested\_by":%' OR body LIKE '%"submitted\_by":%';

UPDATE history SET body = without_last_field(
        without_last_field(body, 'requested_by', requested_by), 'submitted_by', requested_by)
    WHERE requested_by IS NOT NULL;
UPDATE wide SET body = without_last_field(
        without_last_field(body, 'requested_by', requested_by), 'submitted_by', requested_by)
    WHERE requested_by IS NOT NULL;

-- One fact for a launch, whatever has caused it. A request did not record the revision: the fact before it, the
-- submission of what it has launched, has it.
CREATE FUNCTION launched(fact JSON, revision BIGINT, cause JSON) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT json_build_object('launched', json_build_object(
        'entry', fact -> 'task',
        'revision', coalesce(fact ->> 'revision', revision::text, '0')::bigint,
        'cause', cause,
        'verdict', coalesce(fact -> 'verdict', '"launch"'::json),
        'execution', CASE
            WHEN fact ->> 'instance' IS NOT NULL THEN json_build_object('instance', fact -> 'instance')
            WHEN fact ->> 'run' IS NOT NULL THEN json_build_object('run', fact -> 'run') END))::text
$$;

UPDATE history SET body = launched(body::json -> 'instance-triggered',
        (SELECT substring(s.body FROM '"origin":\{"task":[0-9]+,"revision":([0-9]+)')::bigint FROM history AS h JOIN spec AS s ON s.id = h.spec
            WHERE h.instance = history.instance AND h.seq = history.seq - 1),
        json_build_object('request', json_build_object(
            'source', body::json #> '{instance-triggered,by}', 'key', body::json #> '{instance-triggered,key}')))
    WHERE body LIKE '{"instance-triggered":%';

UPDATE wide SET body = launched(body::json -> 'run-triggered',
        (SELECT substring(w.body FROM '"origin":\{"task":[0-9]+,"revision":([0-9]+)')::bigint FROM wide AS w WHERE w.seq = wide.seq - 1),
        json_build_object('request', json_build_object(
            'source', body::json #> '{run-triggered,by}', 'key', body::json #> '{run-triggered,key}')))
    WHERE body LIKE '{"run-triggered":%';

UPDATE wide SET body = launched(body::json -> 'backfill-launched', NULL,
        json_build_object('backfill', json_build_object(
            'backfill', body::json #> '{backfill-launched,backfill}',
            'nominal', body::json #> '{backfill-launched,nominal}')))
    WHERE body LIKE '{"backfill-launched":%';

UPDATE wide SET body = launched(body::json -> 'tick-recorded', NULL, CASE
        WHEN body::json #>> '{tick-recorded,after}' IS NOT NULL THEN json_build_object('upstream', json_build_object(
            'execution', json_build_object('instance', body::json #> '{tick-recorded,after}'),
            'at', body::json #> '{tick-recorded,first}'))
        WHEN body::json #>> '{tick-recorded,after_run}' IS NOT NULL THEN json_build_object('upstream', json_build_object(
            'execution', json_build_object('run', body::json #> '{tick-recorded,after_run}'),
            'at', body::json #> '{tick-recorded,first}'))
        ELSE json_build_object('due', json_build_object(
            'first', body::json #> '{tick-recorded,first}', 'last', body::json #> '{tick-recorded,last}',
            'count', body::json #> '{tick-recorded,count}')) END)
    WHERE body LIKE '{"tick-recorded":%';

DROP FUNCTION launched;

UPDATE totals SET history_bytes = history_bytes
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM history)
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM wide);

DROP FUNCTION requester;
DROP FUNCTION without_last_field

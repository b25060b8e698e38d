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

UPDATE totals SET history_bytes = history_bytes
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM history)
    + (SELECT coalesce(sum(octet_length(body) + coalesce(octet_length(requested_by), 0)), 0) FROM wide);

DROP FUNCTION requester;
DROP FUNCTION without_last_field

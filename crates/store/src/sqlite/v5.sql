-- The library workflow that a run was launched from, its revision and due time, as JSON.
ALTER TABLE run ADD COLUMN origin TEXT;

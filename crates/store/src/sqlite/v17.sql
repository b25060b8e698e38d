-- Alarms that are open: work that is late, slow, short or stuck.
CREATE TABLE alarm (
    name  TEXT PRIMARY KEY,
    kind  TEXT NOT NULL,
    owner TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    body  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

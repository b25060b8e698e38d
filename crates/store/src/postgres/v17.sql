-- Alarms that are open: work that is late, slow, short or stuck.
CREATE TABLE alarm (
    name  TEXT COLLATE "C" PRIMARY KEY,
    kind  TEXT NOT NULL,
    owner TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    body  TEXT NOT NULL
)

-- Cluster-wide limits that were set at run time.
CREATE TABLE cluster_limit (
    name  TEXT    PRIMARY KEY,
    total INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The identity of the store, and its terms. A copy of the file has the same identity, and the terms
-- up to the copy; `generation` is the first term since it was last found to be a copy.
CREATE TABLE identity (
    store INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    settled INTEGER NOT NULL
) STRICT;
INSERT INTO identity (store, generation, settled) VALUES (random(), 0, 1);
CREATE TABLE term (
    epoch INTEGER PRIMARY KEY
) STRICT;
INSERT INTO term (epoch) SELECT epoch FROM leader WHERE epoch > 0;

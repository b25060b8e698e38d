-- The pause of an entry of the library: since when, and the operator's reason.
ALTER TABLE task ADD COLUMN paused_ms INTEGER;
ALTER TABLE task ADD COLUMN pause_reason TEXT;

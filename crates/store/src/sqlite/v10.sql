-- The end of an instance's last attempt (instance.last_end) may have a sixth element: the last lines of
-- its standard error. An earlier Baton could not read it.
SELECT 1;

-- When each process of `processes` has started; NULL where the program of before runs.
ALTER TABLE processes ADD COLUMN started_at_ms BIGINT;

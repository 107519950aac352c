-- Microseconds per token, at which full_at_us was reckoned: limits change. NULL: as the limit is now.
ALTER TABLE buckets ADD COLUMN interval_us INTEGER;

-- 1: the choice is every type that the project has, and those it will have too. Choices that were made before
-- this could be known stay as they were made: nobody is sent what nobody is known to have asked for.
ALTER TABLE type_sets ADD COLUMN follows_all INTEGER NOT NULL DEFAULT 0;

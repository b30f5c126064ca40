-- Which devices of a list are updated when: what was said of a list, and what is asked at every claim.

-- The last word on each list that there was one on. Without a row it goes on.
CREATE TABLE rollouts (
    command  TEXT PRIMARY KEY,
    course   TEXT NOT NULL CHECK (course IN ('going', 'paused', 'stopped')),
    forgiven INTEGER NOT NULL DEFAULT 0 CHECK (forgiven >= 0),  -- bad ends that a person has seen
    actor    TEXT NOT NULL,
    why      TEXT NOT NULL,
    at       INTEGER NOT NULL  -- microseconds since 1970, the best guess
) STRICT, WITHOUT ROWID;

-- How a list stands, from the index alone.
CREATE INDEX inbox_installs ON inbox (command, state, sent) WHERE action = 'install';
-- What is under way at the hub.
CREATE INDEX inbox_updating ON inbox (run)
 WHERE action = 'install' AND (state = 'running' OR (sent = 1 AND state IN ('queued', 'waiting')));
-- What may be begun.
CREATE INDEX inbox_queued_installs ON inbox (run) WHERE action = 'install' AND state = 'queued' AND sent = 0;
-- What is held back.
CREATE INDEX inbox_held_back ON inbox (lane, command, run)
 WHERE state = 'waiting' AND reason IN (
    'rollout_window', 'rollout_canary', 'rollout_limit', 'rollout_paused', 'rollout_stopped');

-- What every script begins with. A line before this text says whether the channels are
-- SHARDED, as in a Cluster.

-- How long a queue is kept of which no waiter has looked for the while, in milliseconds.
local PATIENCE = '60000'


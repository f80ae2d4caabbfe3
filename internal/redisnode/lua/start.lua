-- What all scripts begin with.

-- The server's time in microseconds since 1970, as are all moments.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

-- Return how to publish to a channel and how to count who listens to it: one with a brace is that of a client of a Cluster.
local function publish(channel) return string.find(channel, '{') and 'SPUBLISH' or 'PUBLISH' end
local function listeners(channel) return string.find(channel, '{') and 'SHARDNUMSUB' or 'NUMSUB' end


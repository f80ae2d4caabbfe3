-- What nearly every request needs that finds the name taken or waited for. A line before
-- this text says whether the channels are SHARDED, as in a Cluster.

-- How long a queue is kept of which no waiter has looked for the while, in milliseconds.
local PATIENCE = '60000'

-- The server's time.
local function time()
--include now.lua
  return now
end

-- Tells those who listen to a channel something and returns whether anybody does.
-- The count that PUBLISH answers includes those who subscribed to a pattern, such as a
-- monitoring tool; where there are any, the question before it does not. An error (a user
-- who may not publish) counts as nobody: then the waiter finds out by itself.
local function tell(channel, text)
  local heard
  if SHARDED then
    heard = redis.pcall('SPUBLISH', channel, text)
  elseif redis.pcall('PUBSUB', 'NUMPAT') == 0 or (redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0) > 0 then
    heard = redis.pcall('PUBLISH', channel, text)
  end
  return type(heard) == 'number' and heard > 0
end

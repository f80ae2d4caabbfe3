-- What nearly every request needs that finds the name taken or waited for. A line before
-- this text says whether the channels are SHARDED, as in a Cluster.

-- How long a queue is kept of which no waiter has looked for the while, in milliseconds.
local PATIENCE = '60000'

-- The server's time.
local function time()
  local t = redis.call('TIME')
  return #t[2] == 6 and t[1] .. t[2] or t[1] .. string.sub('00000' .. t[2], -6)
end

-- Tells those who listen to a channel something and returns whether anybody does.
-- The count that PUBLISH answers includes those who subscribed to a pattern,
-- such as a monitoring tool, hence the question before it. An error (a user who
-- may not publish) counts as nobody: then the waiter finds out by itself.
local function tell(channel, text)
  local heard
  if SHARDED then
    heard = redis.pcall('SPUBLISH', channel, text)
  else
    heard = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
    if heard and heard > 0 then
      heard = redis.pcall('PUBLISH', channel, text)
    end
  end
  return type(heard) == 'number' and heard > 0
end

-- Tells those who listen to channel the news, and sets heard to whether anybody does.
-- The count that PUBLISH answers includes those who subscribed to a pattern, such as a
-- monitoring tool; where there are any, the question before it does not. An error (a user
-- who may not publish) counts as nobody: then the waiter finds out by itself.
if SHARDED then
  heard = redis.pcall('SPUBLISH', channel, news)
elseif redis.pcall('PUBSUB', 'NUMPAT') == 0 or (redis.pcall('PUBSUB', 'NUMSUB', channel)[2] or 0) > 0 then
  heard = redis.pcall('PUBLISH', channel, news)
end
heard = type(heard) == 'number' and heard > 0

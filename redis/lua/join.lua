-- Joins a queue in which others wait: what acquire.lua does for a claim that has not asked
-- before, if that is all there is to do. Who holds the name, and for how long, is not
-- looked at.
--
--   KEYS[1]  queue  as in shared.lua
--   KEYS[2]  gone
--
--   ARGV[1]  latest  the server time until which this request is meant
--   ARGV[2]  entry   what is to stand in the queue
--
-- Answers the server's time, or 0 if nothing was done: ask with acquire.lua.

--include now.lua
if now <= ARGV[1] and redis.call('EXISTS', KEYS[2]) == 0 and redis.call('RPUSHX', KEYS[1], ARGV[2]) > 0 then
  return now
end
return 0

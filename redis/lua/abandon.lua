-- Leaves nothing of a claim: takes it out of the queue, passes on what it holds,
-- and makes requests of it that are still on their way ineffective.
--
--   KEYS     as in shared.lua
--
--   ARGV[1]  who    "<claim> <owner>"
--   ARGV[2]  entry  what may stand in the queue for it
--   ARGV[3]  stray  the server time until which a lost request of it could still
--                   have an effect, or nothing if there is none
--   ARGV[4]  "drifts" if one of those joins a queue that moves

--include basic.lua
--include shared.lua

redis.call('LREM', KEYS[3], 0, ARGV[2])

local found = redis.call('MGET', KEYS[1], KEYS[2])
local holder, clock = found[1], sane(found[2])
if not holder or holder == ARGV[1] then
  if not hand_over(clock) and holder then
    redis.call('DEL', KEYS[1])
  end
end

bury(sane(redis.call('GET', KEYS[2])), ARGV[3], ARGV[4])
return 1

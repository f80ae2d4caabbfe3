-- Leaves nothing of a claim: takes it out of the queue, passes on what it holds,
-- and makes requests of it that are still on their way ineffective.
--
--   KEYS     as in shared.lua
--
--   ARGV[1]  claim  and "+"
--   ARGV[2]  entry  what may stand in the queue for it
--   ARGV[3]  stray  the server time until which a lost request of it could still
--                   have an effect, or nothing if there is none
--   ARGV[4]  "drifts" if one of those joins a queue and looks at nothing

--include basic.lua
--include shared.lua

redis.call('LREM', KEYS[3], 0, ARGV[2])
bury(sane(redis.call('GET', KEYS[2])), ARGV[3], ARGV[4])

local held = redis.pcall('HDEL', KEYS[1], ARGV[1], string.sub(ARGV[1], 1, 32))
if type(held) == 'table' and not string.find(held.err, 'WRONGTYPE', 1, true) then
  return held
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  hand_over(sane(redis.call('GET', KEYS[2])))
end
return 1

-- Gives a holder a smaller weight and grants the name to those for whom that makes room.
--
--   KEYS     lock, queue, clock; see lib.lua
--   ARGV[1]  id
--   ARGV[2]  weight
--
-- Answers 1, or 0 if the claim does not hold the name.

local id, weight = ARGV[1], ARGV[2]
local token, rest = held(id, KEYS[1])
if not token then return 0 end
local old, tail = string.match(rest, '^(%d+)( .*)$')
if tonumber(weight) < tonumber(old) then
  local left = redis.call('PTTL', KEYS[1])
  if value('GET', KEYS[1]) then
    redis.call('DEL', KEYS[1])
  else
    left = math.ceil((string.match(redis.call('HGET', KEYS[1], id), '^1 (%d+)') - now) / 1000)
    redis.call('HINCRBY', KEYS[1], 'weight', -old)
  end
  add(id, weight, math.max(left, 1), weight .. tail)
end
grant_waiting()
return 1

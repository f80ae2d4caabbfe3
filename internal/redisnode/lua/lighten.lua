-- Gives a holder a smaller weight and grants the name to those for whom that makes room.
--
--   KEYS     lock, queue, clock; see lib.lua
--   ARGV[1]  id
--   ARGV[2]  weight
--
-- Answers 1, or 0 if the claim does not hold the name.

read()
local token, rest, ends = held(ARGV[1])
if not token then return 0 end
local old, tail = string.match(rest, '^(%d+)( .*)$')
local more = ARGV[2] - old
if more < 0 then
  local left = ends and math.ceil((ends - now) / 1000) or redis.call('PTTL', lock)
  if alone then
    redis.call('DEL', lock)
    alone, among, more = nil, true, ARGV[2]
  end
  put(ARGV[1], ARGV[2] .. tail, math.max(left, 1), more)
end
grant_waiting(0)
return 1

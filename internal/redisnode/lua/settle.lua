-- Gives a holder another token, for locks on several servers that have to agree on one, and counts
-- its time anew.
--
--   KEYS     lock, queue, clock; see lib.lua
--   ARGV[1]  id
--   ARGV[2]  token
--   ARGV[3]  ttl
--
-- Answers {1, clock} if it has the token now (or had it already), {2, clock} if it holds the name
-- but the clock is not below the token, and {0, 0} if it does not hold the name.

local id, token, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local own, rest = held(id, KEYS[1])
if not own then return { 0, 0 } end
local clock = next_token() and tonumber(redis.call('GET', KEYS[3]) or 0)
if not clock then return redis.error_reply('CLOCK ' .. KEYS[3] .. ' holds no token') end
if own ~= token and clock >= token then return { 2, clock } end
if clock < token then redis.call('SET', KEYS[3], ARGV[2]) end
local weight, limit, since, owner = string.match(rest, '^(%d+) (%d+) %d+ (%d+) %d+ (.*)$')
rest = record(weight, limit, ARGV[3], since, ARGV[2], owner)
if value('GET', KEYS[1]) then
  redis.call('SET', KEYS[1], '1 ' .. id .. ' ' .. rest, 'PX', ttl)
else
  redis.call('HINCRBY', KEYS[1], 'weight', -weight)
  add(id, weight, ttl, rest)
end
return { 1, math.max(clock, token) }

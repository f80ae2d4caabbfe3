-- Gives a holder another token, for locks on several servers that have to agree on one, and counts
-- its time anew.
--
--   KEYS     lock, queue, clock; see lib.lua
--   ARGV[1]  id
--   ARGV[2]  token
--   ARGV[3]  ttl
--   ARGV[4]  spare  how many tokens above it are its, too
--
-- Answers {1, clock} if it has the token now (or had it already), {2, clock} if it holds the name
-- but the clock is not below the token, and {0, 0} if it does not hold the name.

read()
local own, rest = held(ARGV[1])
if not own then return { 0, 0 } end
local token, last = tonumber(ARGV[2]), tonumber((value('GET', clock))) or 0
if last >= LATEST then last = 0 end
if own ~= token and last >= token then return { 2, last } end
if last < token then redis.call('SET', clock, token + ARGV[4]) end
local weight, limit, since, owner = string.match(rest, '^(%d+) (%d+) %d+ (%d+) %d+ (.*)$')
put(ARGV[1], table.concat({ weight, limit, ARGV[3], since, ARGV[2], owner }, ' '), ARGV[3], 0)
return { 1, math.max(last, token + ARGV[4]) }

-- Ends whatever a claim has: its holding, its place in the queue, and the effect of requests of it that are
-- still on their way. Grants the name to those who wait.
--
--   KEYS     lock, queue, clock; see lib.lua
--   KEYS[4]  gone      made if a request may still arrive late; see acquire.lua
--   ARGV[1]  entry     the claim, as it would stand in the queue
--   ARGV[2]  linger    milliseconds for which the name stays taken, 0 to free it now
--   ARGV[3]  proposed  a token for the next holder, or 0
--   ARGV[4]  late      the server's time until which a lost request of it could have an effect, or 0
--
-- Answers 1 if the claim held the name, 2 if it stood in the queue, and 0 if neither.

local c, linger, answer = parse(ARGV[1]), tonumber(ARGV[2]), 0
read()
local h = held(c.id)
if h and linger > 0 then
  answer = 1
  h.ends, h.ttl = now + linger * 1000, linger -- the ttl, too, so that nobody cuts it short
  put(h, 0)
  local first = parse(value('LINDEX', queue, 0))
  if first then tell(first.channel, 'look ' .. first.id .. ' ' .. linger) end
elseif h then
  answer = 1
  remove(h)
elseif (value('LREM', queue, 0, ARGV[1]) or 0) > 0 then
  answer = 2
  tell(c.channel, 'look ' .. c.id) -- it may have been evicted
end
local late = math.ceil((ARGV[4] - now) / 1000) + 1
if late > 0 then redis.call('SET', KEYS[4], '', 'PX', late) end
pcall(grant_waiting, tonumber(ARGV[3])) -- whatever stands in the way of that, the name is released
return answer

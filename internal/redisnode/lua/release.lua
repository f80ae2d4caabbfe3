-- Ends whatever a claim has: its holding, its place in the queue, and the effect of requests of it that are
-- still on their way. Or makes a holding lighter. Grants the name to those who wait.
--
--   KEYS     lock, queue, clock; see lib.lua
--   KEYS[4]  gone      made if a request may still arrive late; see acquire.lua
--   ARGV[1]  id
--   ARGV[2]  how       "free": now; "linger <milliseconds>": the name stays taken for so long; "keep <weight>":
--                      the claim goes on holding it, with this weight
--   ARGV[3]  proposed  a token for the next holder, or 0
--   ARGV[4]  late      the server's time until which a lost request of it could have an effect, or 0
--
-- Answers 1 if the claim held the name, 2 if it stood in the queue, and 0 if neither.

local id, answer = ARGV[1], 0
local how, amount = string.match(ARGV[2], '^(%a+) ?(%d*)$')
amount = tonumber(amount)

read()
local h = held(id)
if h and how == 'free' then
  finish(h)
elseif h and how == 'keep' and amount < h.weight then
  remove(h)
  h.weight = amount
  put(h, amount)
  certain = false
elseif h and how == 'linger' then
  redis.call('PEXPIRE', lock, math.max(amount, redis.call('PTTL', lock))) -- allows put to write without memory
  h.ends, h.ttl = now + amount * 1000, LINGERS + amount -- the ttl, too, so that nobody cuts it short
  put(h, 0)
  shorten()
end
if h then
  answer = 1
elseif how ~= 'keep' then
  local c = take_out(id)
  if c then
    answer = 2
    tell(c.channel, 'evicted ' .. id) -- it may have been somebody else who took it out
  end
end
local late = math.ceil((ARGV[4] - now) / 1000) + 1
if late > 0 then redis.call('SET', KEYS[4], '', 'PX', late) end
pcall(function() -- whatever stands in the way of that, the name is released
  grant_waiting(tonumber(ARGV[3]))
  tell_end()
end)
return answer

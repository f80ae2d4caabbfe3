-- Ends whatever a claim has: its holding, its place in the queue, and the effect of requests of
-- it that are still on their way. Grants the name to those who wait.
--
--   KEYS     lock, queue, clock; see lib.lua
--   KEYS[4]  gone      made if there is a stray; see acquire.lua
--   ARGV[1]  id
--   ARGV[2]  linger    milliseconds for which the name stays taken, 0 to free it now
--   ARGV[3]  proposed  a token for the next holder, or 0
--   ARGV[4]  stray     the server's time until which a lost request of it could have an effect, or 0
--   ARGV[5]  entry     what may stand in the queue for it, if anything may
--
-- Answers 1 if the claim held the name, 2 if it stood in the queue, and 0 if neither.

local id, linger = ARGV[1], tonumber(ARGV[2])
local answer = 0
if ARGV[5] and (value('LREM', queue, 0, ARGV[5]) or 0) > 0 then answer = 2 end
local stray = math.ceil((ARGV[4] - now) / 1000) + 1
if stray > 0 then redis.call('SET', KEYS[4], '', 'PX', stray) end

read()
local token, rest = held(id)
if token then
  answer = 1
  local weight, limit, tail = string.match(rest, '^(%d+) (%d+) %d+ (.*)$')
  if linger > 0 then
    -- The ttl becomes what is left, so that nobody cuts it short.
    put(id, weight .. ' ' .. limit .. ' ' .. linger .. ' ' .. tail, linger, 0)
    local first, _, _, _, _, channel = parse(value('LINDEX', queue, 0) or '')
    if first then tell(channel, 'look ' .. first .. ' ' .. linger) end
  else
    remove(id, weight)
  end
end
pcall(grant_waiting, ARGV[3]) -- whatever stands in the way of that, the name is released
return answer

-- Confirms holdings, any number at once, and lengthens those of which a sixth is over: looked at
-- three times in its ttl, a holding is lengthened while half of it is left, and one that is looked
-- at more often is not written each time. It never makes a key that is not there.
--
--   KEYS[2i-1]  lock and KEYS[2i] queue, see lib.lua
--   ARGV[2i-1]  id
--   ARGV[2i]    its ttl, or 0 to confirm it only
--
-- Answers for each the milliseconds that are left, or -1 if the claim does not hold the name, and
-- how many wait.

local answer = {}
for i = 1, #KEYS, 2 do
  lock = KEYS[i]
  read()
  local id, ttl = ARGV[i], tonumber(ARGV[i + 1])
  local token, rest, ends = held(id)
  local left = -1
  if token then
    left = ends and math.ceil((ends - now) / 1000) or redis.call('PTTL', lock)
    if ends and left <= 0 then
      left = -1 -- its time is over, although others keep the key
    elseif ttl > 0 and (left * 6 < ttl * 5 or left > ttl) then
      if ends then put(id, rest, ttl, 0) else redis.call('PEXPIRE', lock, ttl) end
      left = ttl
    end
  end
  answer[i], answer[i + 1] = left, value('LLEN', KEYS[i + 1]) or 0
end
return answer

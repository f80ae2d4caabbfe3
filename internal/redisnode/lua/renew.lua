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
  local lock, id, ttl = KEYS[i], ARGV[i], tonumber(ARGV[i + 1])
  local token, rest = held(id, lock)
  local left = -1
  if token then
    left = redis.call('PTTL', lock)
    local ends = string.match(value('HGET', lock, id) or '', '^1 (%d+)')
    if ends then left = math.ceil((ends - now) / 1000) end
    if ends and left <= 0 then
      left = -1 -- its time is over, although others keep the key
    elseif ttl > 0 and (left * 6 < ttl * 5 or left > ttl) then
      left = ttl
      if ends then redis.call('HSET', lock, id, '1 ' .. text(now + ttl * 1000) .. ' ' .. rest) end
      if not ends or redis.call('PTTL', lock) < ttl then redis.call('PEXPIRE', lock, ttl) end
    end
  end
  answer[i], answer[i + 1] = left, value('LLEN', KEYS[i + 1]) or 0
end
return answer

-- Confirms holdings, any number at once, and lengthens those of which a sixth is
-- over. Looked at three times in its time to live, a holding is lengthened while at
-- least half of it is left, wherever between two looks it began; and one that is looked
-- at more often is not written each time. It never makes a key that is not there.
--
--   KEYS[i]      lock, as in shared.lua
--   ARGV[2i-1]   claim, who is to hold it
--   ARGV[2i]     its time to live, in milliseconds
--
-- Answers for each the milliseconds that are left, or -1 if the claim does not
-- hold it.

-- What is no hash is nobody's, and must not keep the others from being renewed.
local function holds(key, claim)
  local n = redis.pcall('HEXISTS', key, claim)
  if type(n) == 'table' and not string.find(n.err, 'WRONGTYPE', 1, true) then
    n = redis.call('HEXISTS', key, claim) -- fails for the same reason
  end
  return n == 1
end

local left = {}
for i, key in ipairs(KEYS) do
  local claim = ARGV[2 * i - 1]
  if holds(key, claim) or holds(key, claim .. '+') then
    local ttl = tonumber(ARGV[2 * i])
    left[i] = redis.call('PTTL', key)
    if left[i] * 6 < ttl * 5 then
      redis.call('PEXPIRE', key, ttl)
      left[i] = ttl
    end
  else
    left[i] = -1
  end
end
return left

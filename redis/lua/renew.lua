-- Confirms holdings, any number at once, and lengthens those of which a sixth is
-- over. Looked at three times in its time to live, a holding is lengthened while at
-- least half of it is left, wherever between two looks it began; and one that is looked
-- at more often is not written each time. It never makes a key that is not there.
--
--   KEYS[i]      lock, as in acquire.lua
--   ARGV[2i-1]   "<claim> <owner>", who is to hold it
--   ARGV[2i]     its time to live, in milliseconds
--
-- Answers for each the milliseconds that are left, or -1 if the claim does not
-- hold it.

local found = redis.call('MGET', unpack(KEYS))
local left = {}
for i, key in ipairs(KEYS) do
  if found[i] == ARGV[2 * i - 1] then
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

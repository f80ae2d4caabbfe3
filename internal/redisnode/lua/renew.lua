-- Confirms holdings, any number at once, and lengthens those of which a sixth is over: looked at three times
-- in its ttl, a holding is lengthened while half of it is left, and one that is looked at more often is
-- not written each time. It never makes a key that is not there, nor lengthens a holding that lingers, whose
-- ttl is that of no claim.
--
--   KEYS[2i-1]  lock and KEYS[2i] queue, see lib.lua
--   ARGV[2i-1]  id
--   ARGV[2i]    its ttl, or 0 to confirm it only
--
-- Answers for each the milliseconds that are left, or -1 if the claim does not hold the name, and how many
-- wait.

local answer = {}
for i = 1, #KEYS, 2 do
  lock = KEYS[i]
  read()
  local h, ttl, left = held(ARGV[i]), tonumber(ARGV[i + 1]), -1
  if h then
    left = math.floor((h.ends - now) / 1000)
    if ttl == h.ttl and (left * 6 < ttl * 5 or left > ttl) then
      left = ttl
      h.ends = now + ttl * 1000
      redis.call('PEXPIRE', lock, math.max(ttl, redis.call('PTTL', lock))) -- allows put to write without memory
      put(h, 0)
    end
  end
  answer[i], answer[i + 1] = left, value('LLEN', KEYS[i + 1]) or 0
end
return answer

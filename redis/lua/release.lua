-- Ends a holding and gives the name to the next who waits.
--
--   KEYS     as in shared.lua; the fourth is for those whose request to acquire was lost
--
--   ARGV[1]  claim  and "+"
--   ARGV[2]  own    the channel of the one who asks, if others wait there
-- and if the answer to a request to acquire was lost
--   ARGV[3]  entry  what may stand in the queue for it
--   ARGV[4]  stray  the server time until which it could still take the name
--   ARGV[5]  "drifts" if it could join the queue until then
-- or if another is to join the queue, should one on the same channel get the name
--   ARGV[3]  entry  of that one
--   ARGV[4]  latest the server time until which it is to join
--   ARGV[5]  "join", or "follow" if such a one is likely to be the first and the queue was
--            prolonged lately
--
-- Answers 1 if the claim held the name and does no longer, or what the next holder is to
-- be told, if its channel is that of the one who asks, and before that, if the other has
-- joined, what that is to know: "now left place heard last ", as in acquire.lua; 0 if the claim
-- did not hold the name.

local held = redis.pcall('HDEL', KEYS[1], ARGV[1])
if held ~= 1 and held ~= 0 then
  -- What is no hash is another's.
  return string.find(held.err, 'WRONGTYPE', 1, true) and 0 or held
end
held = held == 1
local clock = redis.call('GET', KEYS[2])
local along = ARGV[5] == 'join' or ARGV[5] == 'follow'

-- Mostly nothing was lost and the first in the queue listens: what hand_over does, in fewer
-- steps. (A clock is greater than the time that it begins with.)
if held and (not ARGV[3] or along) and clock and #clock == 33 then
--include now.lua
  if now > clock then
    -- The mark on the clock has to be there for those who give a claim up; see shared.lua.
    -- Once one is given up that might still come here the clock is longer.
    local joins = along and now <= ARGV[4] and string.sub(clock, 18) >= ARGV[4]
    local place
    if joins and ARGV[5] == 'follow' then -- before the queue is empty, and made anew
      place = redis.call('RPUSHX', KEYS[3], ARGV[3]) - 2
    end
    local waiter = redis.call('LPOP', KEYS[3])
    if not waiter then
      return 1
    end
    local channel, ttl, claim, owner = string.match(waiter, '^(%S+) (%d+) (%S+) (.*)$')
    local news = claim and claim .. ' ' .. now .. ' ' .. now .. ' ' .. KEYS[1]
    local own = news and channel == ARGV[2]
    if place and not own then
      redis.call('LREM', KEYS[3], -1, ARGV[3])
    end
    local heard = own
    if news and not own then
--include tell.lua
    end
    if heard then
--include take.lua
      redis.call('SETRANGE', KEYS[2], '0', now) -- and the mark stays
      if not own then
        return 1
      end
      if not joins then
        return news
      end
      if not place then
        place = redis.call('RPUSH', KEYS[3], ARGV[3]) - 1
        redis.call('PEXPIRE', KEYS[3], PATIENCE)
      end
      return now .. ' ' .. ttl .. ' ' .. place .. ' 0 ' .. now .. ' ' .. news
    end
  end
end

--include basic.lua
--include shared.lua

-- Nobody was known to wait, or the name is another's.
held = held or redis.call('HDEL', KEYS[1], string.sub(ARGV[1], 1, 32)) == 1
if not held and redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end

clock = sane(clock)
if ARGV[3] and not along then
  redis.call('LREM', KEYS[3], 0, ARGV[3])
  bury(clock, ARGV[4], ARGV[5])
  clock = sane(redis.call('GET', KEYS[2]))
end
-- If the name is free already nobody else may be awake to see that.
local handed = hand_over(clock, nil, held and ARGV[2])
if type(handed) == 'string' then
  return handed
end
return held and 1 or 0

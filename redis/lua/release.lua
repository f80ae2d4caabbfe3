-- Ends a holding and gives the name to the next who waits.
--
--   KEYS     as in shared.lua; lock and clock are enough if nobody in the bucket has
--            waited lately, the fourth is only for the last two arguments
--
--   ARGV[1]  who    "<claim> <owner>"
-- and if the answer to a request to acquire was lost
--   ARGV[2]  entry  what may stand in the queue for it
--   ARGV[3]  stray  the server time until which it could still take the name
--
-- Answers 1 if the claim held the name and does no longer, 0 if it did not, -2 if
-- somebody may wait: ask with three keys.

local found = redis.call('MGET', KEYS[1], KEYS[2])
local holder, clock = found[1], found[2]
if holder and holder ~= ARGV[1] then
  return 0
end

-- Nobody in the bucket has waited lately: two commands.
if holder and #ARGV == 1 and clock and #clock == 16 then
  redis.call('DEL', KEYS[1])
  return 1
end
if #KEYS == 2 then
  return -2
end

--include shared.lua

clock = sane(clock)
if ARGV[2] then
  redis.call('LREM', KEYS[3], 0, ARGV[2])
  bury(clock, ARGV[3])
  clock = redis.call('GET', KEYS[2])
end
-- If the name is free already nobody else may be awake to see that.
if not hand_over(clock) and holder then
  redis.call('DEL', KEYS[1])
end
return holder and 1 or 0

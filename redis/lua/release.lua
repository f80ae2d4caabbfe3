-- Ends a holding and gives the name to the next who waits.
--
--   KEYS[1]  lock   as in acquire.lua
--   KEYS[2]  clock
--
--   ARGV[1]  who    "<claim> <owner>"
-- and if the answer to a request to acquire was lost
--   ARGV[2]  entry  what may stand in the queue for it
--   ARGV[3]  stray  the server time until which it could still take the name
--
-- Answers 1 if the claim held the name and does no longer, 0 if it did not.

local found = redis.call('MGET', KEYS[1], KEYS[2])
local holder = found[1]
if holder and holder ~= ARGV[1] then
  return 0
end

-- Nobody waits and nobody has for long: two commands.
if holder and #ARGV == 1 and found[2] and #found[2] == 16 then
  redis.call('DEL', KEYS[1])
  return 1
end

--include shared.lua

local clock = read_clock(found[2])
if ARGV[2] then
  redis.call('LREM', QUEUE, 0, ARGV[2])
  bury(clock, ARGV[3])
end
if not holder then
  hand_over(clock) -- nobody else may be awake to see that the name is free
  return 0
end
if not hand_over(clock) then
  redis.call('DEL', KEYS[1])
end
return 1

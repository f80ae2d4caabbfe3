-- Ends a holding and gives the name to the next who waits.
--
--   ARGV[5]  stray  the server time until which a lost request of this claim could
--                   still take the name; 0 if there is none
--   ARGV[6]  entry  the claim's in the queue
--
-- Answers 1 if the claim held the name and does no longer, 0 if it did not.

local found = redis.call('MGET', KEYS[1], KEYS[3])
local holder, last = found[1], found[2]

if not holder then
  hand_over(last) -- nobody else may be awake to see that it is free
  return 0
end
if string.sub(holder, 1, 32) ~= ARGV[1] then
  return 0
end

if ARGV[5] ~= '0' then
  redis.call('LREM', KEYS[2], 0, ARGV[6])
  bury(ARGV[5])
end
if not hand_over(last) then
  redis.call('DEL', KEYS[1])
end
return 1

-- Leaves nothing of a claim: takes it out of the queue, passes on what it holds,
-- and makes requests of it that are still on their way ineffective.
--
--   ARGV[5]  stray  the server time until which a lost request of this claim could
--                   still have an effect; 0 if there is none
--   ARGV[6]  entry  the claim's in the queue

redis.call('LREM', KEYS[2], 0, ARGV[6])

local found = redis.call('MGET', KEYS[1], KEYS[3])
local holder, last = found[1], found[2]
local mine = holder and string.sub(holder, 1, 32) == ARGV[1]
if mine or not holder then
  if not hand_over(last) and mine then
    redis.call('DEL', KEYS[1])
  end
end

bury(ARGV[5])
return 1

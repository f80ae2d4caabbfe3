-- Ask for the lock on this node.
--
-- KEYS  1 the lock   2 the bucket's clock   3 who waits   4 the mark that this claim was withdrawn
-- ARGV  1 our value  2 TTL in ms
--       3 the token that we guess ("" without fencing, "0" when we have no guess)
--       4 "1" to stand in the queue when the lock is taken
--
-- Answers 1: ours, and the token is written; {2, clock, time}: ours, but the token
-- is not above both the bucket's clock and the node's time (or so far above them
-- that our idea of the time must be wrong); {0, holder, ms left, time}:
-- another's; -1: this claim was withdrawn before the request came.
local known = redis.call('mget', KEYS[1], KEYS[2], KEYS[4])
if known[3] then
  return -1
end
local held = known[1]
if held and held ~= ARGV[1] then
  if ARGV[4] == '1' then
    redis.call('zadd', KEYS[3], 0, ARGV[1])
    redis.call('pexpire', KEYS[3], 15000)
  end
  local t = redis.call('time')
  return {0, held, redis.call('pttl', KEYS[1]), t[1] * 1000000 + t[2]}
end
-- Free, or ours already: handed to us by a holder who left, or by a
-- request of ours whose reply was lost.
redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
if ARGV[3] == '' then
  return 1
end
local t = redis.call('time')
local time = t[1] * 1000000 + t[2]
local clock = tonumber(known[2] or 0)
local token, highest = tonumber(ARGV[3]), math.max(clock, time)
if token > highest and token <= highest + 1000000 then
  redis.call('set', KEYS[2], ARGV[3])
  return 1
end
return {2, clock, time}

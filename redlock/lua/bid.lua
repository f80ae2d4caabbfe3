-- Ask for the lock on this node.
--
-- KEYS  1 the lock   2 the mark that this claim was withdrawn   3 who waits
--       4 the bucket's clock, if there is to be a token
-- ARGV  1 our value  2 TTL in ms
--       3 the token that we guess ("0" when we have no guess, "" without fencing)
--       4 "1" not to stand in the queue when the lock is taken
-- What is left out at the end is the usual: a call costs by the length of its list.
-- The mark of another claim has the same key but for the ID (the last 32 bytes), which
-- is in the claim's value, as is whether it has made a plain bid; see value.go.
--
-- Answers 1: ours, and the token is written; {2, clock, time}: ours, but the token
-- is not above both the bucket's clock and the node's time (or so far above them
-- that our idea of the time must be wrong); {0, holder, ms left, time}:
-- another's; -1: this claim was withdrawn before the request came.
if redis.call('exists', KEYS[2]) == 1 then
  return -1
end
if not redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then
  local held = redis.call('get', KEYS[1])
  if held == ARGV[1] then
    -- Ours already: handed to us by a holder who left, or by a request of ours whose
    -- reply was lost.
    redis.call('pexpire', KEYS[1], ARGV[2])
  elseif string.byte(held, 67) == 44 and
      redis.call('exists', string.sub(KEYS[2], 1, -33) .. string.sub(held, 18, 49)) == 1 then
    -- A plain bid that came when its claim had been withdrawn. Nobody has the lock.
    redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2])
  else
    if ARGV[4] ~= '1' then
      redis.call('zadd', KEYS[3], 0, ARGV[1])
      redis.call('pexpire', KEYS[3], 15000)
    end
    local t = redis.call('time')
    return {0, held, redis.call('pttl', KEYS[1]), t[1] * 1000000 + t[2]}
  end
end
if not KEYS[4] then
  return 1
end
local t = redis.call('time')
local time = t[1] * 1000000 + t[2]
local clock = tonumber(redis.call('get', KEYS[4]) or 0)
local token, highest = tonumber(ARGV[3]), math.max(clock, time)
if token > highest and token <= highest + 1000000 then
  redis.call('set', KEYS[4], ARGV[3])
  return 1
end
return {2, clock, time}

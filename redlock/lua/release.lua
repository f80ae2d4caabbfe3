-- Give up what a claim has on this node: the lock, which goes to whoever has
-- waited longest and still listens, and the place in the queue.
--
-- KEYS  1 the lock   2 the bucket's clock   3 who waits   4 the mark that this claim was withdrawn
-- ARGV  1 the head of our value   2 our value
--       3 a token for the successor, "" without fencing
--       4 how long to remember that the claim was withdrawn, in ms: for when a
--         request of it may still be on its way; "0" for not at all
--       5 "1" to stand in the queue again
--       6 what the channels of the waiters begin with
--       7 "1" if the claim may be in the queue
--       8 "keep" to hand the lock to nobody, but to keep it from those who wait, for
--         a moment, because our process will come for it at once; "next" to hand it
--         over if it is free, or kept for us
--
-- Answers {0, holder}: the lock was not ours; 1: it was, and nobody waits;
-- {1, successor, n}: it was, and has gone to the successor, n being 1 when the
-- token was written too.
local ours = redis.call('getrange', KEYS[1], 0, 48) == ARGV[1]
if ARGV[7] == '1' then
  redis.call('zrem', KEYS[3], ARGV[2])
end
local answer = 1
local kept = 'kept.' .. string.sub(ARGV[2], 51, 66)
local free = false
if ARGV[8] == 'next' then
  local held = redis.call('get', KEYS[1])
  free = not held or held == kept
end
if ours and ARGV[8] == 'keep' then
  if redis.call('exists', KEYS[3]) == 1 then
    redis.call('set', KEYS[1], kept, 'px', 100)
  else
    redis.call('del', KEYS[1])
  end
elseif ours or free then
  local successor, ttl
  repeat
    successor = redis.call('zpopmin', KEYS[3])[1]
    -- Layout of a value: see value.go.
    ttl = successor and tonumber(string.sub(successor, 68, 75))
  until not successor
    or ttl and redis.call('pubsub', 'numsub', ARGV[6] .. string.sub(successor, 51, 66))[2] > 0
  if not successor then
    redis.call('del', KEYS[1])
  else
    redis.call('set', KEYS[1], successor, 'px', ttl)
    answer = {1, successor, 0}
    if ARGV[5] == '1' then
      redis.call('zadd', KEYS[3], 0, ARGV[2])
      redis.call('pexpire', KEYS[3], 15000)
    end
    if ARGV[3] ~= '' then
      local t = redis.call('time')
      local clock = math.max(tonumber(redis.call('get', KEYS[2]) or 0), t[1] * 1000000 + t[2])
      local token = tonumber(ARGV[3])
      if token > clock and token <= clock + 1000000 then
        redis.call('set', KEYS[2], ARGV[3])
        answer[3] = 1
      end
    end
  end
else
  answer = {0, redis.call('get', KEYS[1]) or ''}
end
if ARGV[4] ~= '0' then
  redis.call('set', KEYS[4], '', 'px', ARGV[4])
end
return answer

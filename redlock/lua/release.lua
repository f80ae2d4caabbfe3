-- Give up what a claim has on this node: its place in the queue, and the lock, which goes
-- to whoever has waited longest and still listens, and who is told in the same breath.
--
-- KEYS  1 the lock   2 the bucket's clock   3 who waits   4 the mark that this claim was withdrawn
-- ARGV  1 the head of our value   2 our value
--       3 a token for the successor, "" without fencing
--       4 how long to remember that the claim was withdrawn, in ms: for when a
--         request of it may still be on its way; "0" for not at all
--       5 "1" to stand in the queue again
--       6 what the channels of the waiters begin with
--       7 "1" if the claim may be in the queue
--
-- Answers 1 if the lock was ours, and 0 if not. The successor is sent its token, or "?" if
-- that was not written, the first 75 bytes of its value, and the lock's key.
local ours = redis.call('getrange', KEYS[1], 0, 48) == ARGV[1]
if ARGV[7] == '1' then
  redis.call('zrem', KEYS[3], ARGV[2])
end
if ARGV[4] ~= '0' then
  redis.call('set', KEYS[4], '', 'px', ARGV[4])
end
if not ours then
  return 0
end
local successor = redis.call('zpopmin', KEYS[3])[1]
local token
while successor do
  if not token then
    token = '?'
    if ARGV[3] ~= '' then
      local t = redis.call('time')
      local clock = math.max(tonumber(redis.call('get', KEYS[2]) or 0), t[1] * 1000000 + t[2])
      if tonumber(ARGV[3]) > clock and tonumber(ARGV[3]) <= clock + 1000000 then
        token = ARGV[3]
      end
    end
  end
  -- Layout of a value: see value.go. Who has no listener is gone.
  local ttl = tonumber(string.sub(successor, 68, 75))
  if ttl and redis.call('publish', ARGV[6] .. string.sub(successor, 51, 66),
      token .. ' ' .. string.sub(successor, 1, 75) .. ' ' .. KEYS[1]) > 0 then
    redis.call('set', KEYS[1], successor, 'px', ttl)
    if token ~= '?' then
      redis.call('set', KEYS[2], token)
    end
    if ARGV[5] == '1' then
      redis.call('zadd', KEYS[3], 0, ARGV[2])
      redis.call('pexpire', KEYS[3], 15000)
    end
    return 1
  end
  successor = redis.call('zpopmin', KEYS[3])[1]
end
redis.call('del', KEYS[1])
return 1

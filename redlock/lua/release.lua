-- Give up what a claim has on this node: its place in the queue, and the lock, which goes
-- to whoever has waited longest and still listens, and who is told in the same breath.
--
-- KEYS  1 the lock   2 who waits   3 the bucket's clock
--       4 the mark that this claim was withdrawn, if it is to be made
-- ARGV  1 the head of our value
--       2 a token for the successor, "" without fencing
--       3 our value, if the claim may be in the queue
--       4 "1" to stand in the queue again
--       5 how long to remember that the claim was withdrawn, in ms: for when a
--         request of it may still be on its way
-- What is left out at the end is the usual: a call costs by the length of its list.
--
-- Answers 1 if the lock was ours, and 0 if not. The successor is sent its token, or "?" if
-- that was not written, the first 75 bytes of its value, and the lock's key.
local ours = redis.call('getrange', KEYS[1], 0, 48) == ARGV[1]
if ARGV[3] then
  redis.call('zrem', KEYS[2], ARGV[3])
end
if KEYS[4] then
  redis.call('set', KEYS[4], '', 'px', ARGV[5])
end
if not ours then
  return 0
end
local successor = redis.call('zpopmin', KEYS[2])[1]
local token, channel
while successor do
  if not token then
    token = '?'
    if ARGV[2] and ARGV[2] ~= '' then
      local t = redis.call('time')
      local clock = math.max(tonumber(redis.call('get', KEYS[3]) or 0), t[1] * 1000000 + t[2])
      if tonumber(ARGV[2]) > clock and tonumber(ARGV[2]) <= clock + 1000000 then
        token = ARGV[2]
      end
    end
    channel = string.sub(KEYS[1], 1, string.find(KEYS[1], '{', 1, true) - 1) .. 'wake:'
  end
  -- Layout of a value: see value.go. Who has no listener is gone.
  local ttl = tonumber(string.sub(successor, 68, 75))
  if ttl and redis.call('publish', channel .. string.sub(successor, 51, 66),
      token .. ' ' .. string.sub(successor, 1, 75) .. ' ' .. KEYS[1]) > 0 then
    redis.call('set', KEYS[1], successor, 'px', ttl)
    if token ~= '?' then
      redis.call('set', KEYS[3], token)
    end
    if ARGV[4] == '1' then
      redis.call('zadd', KEYS[2], 0, ARGV[3])
      redis.call('pexpire', KEYS[2], 15000)
    end
    return 1
  end
  successor = redis.call('zpopmin', KEYS[2])[1]
end
redis.call('del', KEYS[1])
return 1

-- Count the time anew for a lock that is ours, and write its token.
--
-- KEYS  1 the lock   2 the bucket's clock
-- ARGV  1 the head of our value   2 TTL in ms   3 the token, "" without fencing
--
-- Answers 1: done; {2, clock}: the lock is ours but the token is not above the
-- clock; 0: the lock is not ours, and nothing was done.
if redis.call('getrange', KEYS[1], 0, 48) ~= ARGV[1] then
  return 0
end
redis.call('pexpire', KEYS[1], ARGV[2])
if ARGV[3] == '' then
  return 1
end
local clock = tonumber(redis.call('get', KEYS[2]) or 0)
if tonumber(ARGV[3]) > clock then
  redis.call('set', KEYS[2], ARGV[3])
  return 1
end
return {2, clock}

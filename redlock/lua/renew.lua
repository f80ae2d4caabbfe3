-- Count the time anew for every lock that is ours. Never makes one.
--
-- KEYS  the locks
-- ARGV  for each of them the head of our value and its TTL in ms
--
-- Answers a string with a 1 for every lock that is ours and a 0 for the others.
local answer = {}
for i, lock in ipairs(KEYS) do
  if redis.call('getrange', lock, 0, 48) == ARGV[2 * i - 1] then
    redis.call('pexpire', lock, ARGV[2 * i])
    answer[i] = '1'
  else
    answer[i] = '0'
  end
end
return table.concat(answer)

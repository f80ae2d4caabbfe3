-- The commonest case in fewer steps: an exclusive claim, and nobody holds the name or waits for it.
-- The server needs 9 us for that instead of 14, which is a tenth of what a lock takes a client alone.

if ARGV[2] == '2147483647' and now <= tonumber(ARGV[6]) and
  redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[4]) == 0 then
  local last = redis.pcall('GET', KEYS[3])
  local token, proposed = now, tonumber(ARGV[7])
  if proposed > now and proposed < now + 1000000 then token = proposed end
  if not last or type(last) == 'string' and (tonumber(last) or token) < token then
    local spare = math.max(0, math.min(ARGV[4], math.min(token, now + 100000) + 1000 - token))
    local record = string.format('1 %s %s %s %s %.0f %.0f %s', ARGV[1], ARGV[2], ARGV[3], ARGV[5], now, token, ARGV[8])
    redis.call('SET', KEYS[3], token + spare)
    redis.call('SET', KEYS[1], record, 'NX', 'PX', ARGV[5])
    return { 1, now, token, spare }
  end
end


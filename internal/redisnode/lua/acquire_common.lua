-- The two commonest cases of acquire.lua in fewer steps: an exclusive claim finds nothing and nobody, or
-- one holder alone behind whom it waits. May be deleted, as may release_common.lua: with the two the server
-- needs 20 us instead of 34 for each request of 16 clients that want one name, which then takes a fifth less
-- time from hand to hand, and a tenth less for a client alone.

-- Reports whether the entry belongs at the end of the queue, and does not stand there yet.
local function last_in_queue()
  if ARGV[11] ~= 'age' then return not ARGV[10] end
  local age = '^1 %x+ %d+ %d+ %d+ %d+ (%d+) '
  local last = redis.pcall('LINDEX', KEYS[2], -1)
  return ARGV[10] == '' and (not last or type(last) == 'string' and
    (tonumber(string.match(last, age)) or 0) < tonumber(string.match(ARGV[9], age)))
end

local v = redis.pcall('GET', KEYS[1])
if now <= tonumber(ARGV[6]) and redis.call('EXISTS', KEYS[4]) == 0 then
  if not v and ARGV[2] == '2147483647' and redis.call('EXISTS', KEYS[2]) == 0 then
    local last = redis.pcall('GET', KEYS[3])
    local token, proposed = now, tonumber(ARGV[7])
    if proposed > now and proposed < now + 1000000 then token = proposed end
    if not last or type(last) == 'string' and (tonumber(last) or token) < token then
      local spare = math.max(0, math.min(ARGV[4], math.min(token, now + 100000) + 1000 - token))
      redis.call('SET', KEYS[3], token + spare)
      redis.call('SET', KEYS[1], string.format('1 %s %s %s %s %.0f %.0f ',
        ARGV[1], ARGV[2], ARGV[3], ARGV[5], now, token) .. ARGV[8], 'NX', 'PX', ARGV[5])
      return { 1, now, token, spare }
    end
  elseif type(v) == 'string' and ARGV[9] and last_in_queue() then
    local id, ttl = string.match(v, '^1 (%x+) %d+ %d+ (%d+) ')
    local left = redis.call('PTTL', KEYS[1])
    if id and id ~= ARGV[1] and left >= 0 and left <= tonumber(ttl) then
      local place = redis.call('RPUSH', KEYS[2], ARGV[9]) - 1
      redis.call('PEXPIRE', KEYS[2], 60000)
      return { 0, now, left, place, id }
    end
  end
end


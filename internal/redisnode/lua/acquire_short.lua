-- Reports whether the claim belongs at the end of the queue, and does not stand there yet.
local function is_last()
  if ARGV[5] ~= 'age' then return not redis.call('LPOS', KEYS[2], ARGV[1]) end
  local since, last = '^1 %x+ %d+ %d+ %d+ %d+ (%d+) ', redis.call('LINDEX', KEYS[2], -1)
  return not last or (tonumber(string.match(last, since)) or now) < tonumber(string.match(ARGV[1], since))
end

if now <= tonumber(ARGV[2]) and redis.call('EXISTS', KEYS[4]) == 0 then
  local record = redis.pcall('GET', KEYS[1])
  local id, spare, ttl, _, owner = string.match(ARGV[1], EXCLUSIVE)
  if not record and id and redis.call('EXISTS', KEYS[2]) == 0 then
    local token, more = grant(false, ARGV[3], id, spare, ttl, owner)
    if token then return { 1, now, token, more } end
  elseif type(record) == 'string' and ARGV[4] == 'queue' then
    local holder, ends, its_ttl = string.match(record, '^1 (%x+) (%d+) 2147483647 %d+ (%d+) ')
    local stays = redis.call('PTTL', KEYS[1])
    if holder and holder ~= id and tonumber(ends) > now and ends - now <= its_ttl * 1000 and stays >= 0 and is_last() then
      local place = redis.call('RPUSH', KEYS[2], ARGV[1]) - 1
      redis.call('PEXPIRE', KEYS[2], 60000)
      return { 0, now, math.min(stays, math.ceil((ends - now) / 1000)), place }
    end
  end
end


-- The two commonest cases of release.lua in fewer steps: an exclusive holder releases the name and nobody
-- waits, or the first who waits is an exclusive claim. May be deleted: see acquire_common.lua.

local v = redis.pcall('GET', KEYS[1])
if #ARGV == 4 and ARGV[2] == '0' and ARGV[4] == '0' and type(v) == 'string' and
  string.sub(v, 1, 35) == '1 ' .. ARGV[1] .. ' ' then
  local entry = redis.pcall('LINDEX', KEYS[2], 0)
  if not entry then return redis.call('DEL', KEYS[1]) end
  local id, ttl, channel, owner = string.match(type(entry) == 'string' and entry or '',
    '^1 (%x+) 2147483647 2147483647 0 (%d+) %d+ (%S+) (.*)$')
  local last = redis.pcall('GET', KEYS[3])
  local token, proposed = now, tonumber(ARGV[3])
  if proposed > now and proposed < now + 1000000 then token = proposed end
  if id and type(last) == 'string' and (tonumber(last) or token) < token and
    (redis.pcall('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] or 0) > 0 then
    redis.call('LPOP', KEYS[2])
    redis.call('SET', KEYS[3], token)
    redis.call('SET', KEYS[1], string.format('1 %s 2147483647 2147483647 %s %.0f %.0f ', id, ttl, now, token) .. owner, 'PX', ttl)
    redis.pcall(SHARDED and 'SPUBLISH' or 'PUBLISH', channel,
      string.format('granted %s %.0f 0 %.0f ', id, token, now) .. KEYS[1])
    return 1
  end
end


local record = ARGV[2] == 'free' and ARGV[4] == '0' and redis.pcall('GET', KEYS[1])
if type(record) == 'string' and string.sub(record, 1, 35) == '1 ' .. ARGV[1] .. ' ' then
  local entry = redis.pcall('LINDEX', KEYS[2], 0)
  if not entry then return redis.call('DEL', KEYS[1]) end
  local id, spare, ttl, channel, owner = string.match(type(entry) == 'string' and entry or '', EXCLUSIVE)
  if id and (redis.pcall('PUBSUB', LISTENERS, channel)[2] or 0) > 0 then
    local token, more = grant(true, ARGV[3], id, spare, ttl, owner)
    if token then
      redis.pcall(PUBLISH, channel, string.format('granted %s %.0f %.0f %.0f ', id, token, more, now) .. KEYS[1])
      redis.call('LPOP', KEYS[2])
      return 1
    end
  end
end


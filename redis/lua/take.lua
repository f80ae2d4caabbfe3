-- Makes claim the holder, which nobody is now.
redis.call('HSET', KEYS[1], claim, owner)
if redis.pcall('PEXPIRE', KEYS[1], ttl) ~= 1 then -- by a user who may not; but without it the name would be taken forever
  redis.call('HDEL', KEYS[1], claim)
  redis.call('PEXPIRE', KEYS[1], ttl) -- fails for the same reason
end

-- Shows who holds the name and who waits for it. It changes nothing.
--
--   KEYS  lock, queue; see lib.lua
--
-- Answers {now, milliseconds the key of the lock will stay, the string or nothing, the hash as a
-- list of fields and values, the queue}.

return {
  now, redis.call('PTTL', lock), value('GET', lock) or '',
  value('HGETALL', lock) or {}, value('LRANGE', queue, 0, -1) or {},
}

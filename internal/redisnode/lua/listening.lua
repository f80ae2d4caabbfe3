-- Makes sure that a subscription is there, and that its user may do all that a grant does, before anybody
-- relies on it.
--
--   KEYS[1]  a key of the bucket; not touched, it only leads to the right server
--   ARGV[1]  channel
--
-- Answers how many listen.

redis.call(PUBLISH, ARGV[1], '')
return redis.call('PUBSUB', LISTENERS, ARGV[1])[2]

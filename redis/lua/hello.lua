-- Makes sure that a subscription is there and that its user may do all that a
-- hand-over does, before anybody relies on it.
--
--   KEYS[1]  a key of the bucket; not touched, it only leads to the right node
--   ARGV[1]  channel
--   ARGV[2]  "S" for sharded channels (Cluster), or nothing
--
-- Answers how many heard the word.

if ARGV[2] == '' and redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2] == 0 then
  return 0
end
return redis.call(ARGV[2] .. 'PUBLISH', ARGV[1], '')

-- Makes sure that a subscription is there and that its user may do all that a
-- hand-over does, before anybody relies on it. The line with which the text is put
-- in front says whether the channel is sharded (S).
--
--   KEYS[1]  a key of the bucket; not touched, it only leads to the right node
--   ARGV[1]  channel
--
-- Answers how many heard the word.

if S == '' and redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2] == 0 then
  return 0
end
return redis.call(S .. 'PUBLISH', ARGV[1], '')

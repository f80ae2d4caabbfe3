-- Takes the name if it is free, or else, if asked to, joins the queue. To send it
-- again for the same claim is harmless and gives the same answer.
--
--   ARGV[5]  ttl       of the holding, in milliseconds
--   ARGV[6]  latest    the server time until which this request is meant; one that
--                      the network kept for longer must not take anything
--   ARGV[7]  locker    where to tell the news, or nothing: do not wait
--   ARGV[8]  before    how often the queue may have been joined already: "" never,
--                      "again" maybe, "probe" maybe, and say a word on the channel
--   ARGV[9]  owner
--   ARGV[10] patience  after how many milliseconds without news from any waiter
--                      the queue is forgotten
--
-- Answers
--   a number above 0   the name is yours, this is the token
--   0                  it is not free
--   -1                 the claim has been given up
--   {now}              the request came too late
--   {now, left, last, place, heard}  you are waiting: the holder has so many milliseconds
--                      left, that was the last token, so many wait before you, so
--                      many heard the word

local now = time()
if now > tonumber(ARGV[6]) then
  return { now }
end

local found = redis.call('MGET', KEYS[1], KEYS[3], KEYS[4])
local holder, last = found[1], found[2]
if found[3] then
  return -1
end

if holder and string.sub(holder, 1, 32) == ARGV[1] then
  -- An earlier answer or message was lost.
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
  return tonumber(string.match(holder, '^%d+', 34))
end

if not holder then
  local taken = false
  if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
    redis.call('GET', KEYS[1]) -- an error if it holds something else than a string
    -- A holder died, or lost the name. Those who wait come first.
    taken = hand_over(last, now, ARGV[1])
  end
  if not taken then
    local token = next_token(last, now)
    give(ARGV[1], ARGV[5], ARGV[9], token)
    return token
  end
end

if ARGV[7] == '' then
  return 0
end

local entry = ARGV[1] .. ' ' .. ARGV[7] .. ' ' .. ARGV[5] .. ' ' .. ARGV[9]
local place = ARGV[8] ~= '' and redis.call('LPOS', KEYS[2], entry)
if not place then
  place = redis.call('RPUSH', KEYS[2], entry) - 1
end
redis.call('PEXPIRE', KEYS[2], ARGV[10])

local heard = 0
if ARGV[8] == 'probe' and tell(ARGV[2] .. ARGV[7], '') then
  heard = 1
end
return { now, redis.call('PTTL', KEYS[1]), tonumber(last) or 0, place, heard }

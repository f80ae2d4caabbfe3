-- Takes the name if it is free, or else, if asked to, joins the queue. To send it
-- again for the same claim is harmless.
--
--   KEYS[1]  lock    string "<claim> <owner>" with a time to live; it is there while
--                    somebody holds the name
--   KEYS[2]  clock   string, the last token given to any name of this bucket, 16
--                    digits; see below for what may follow it
--
--   ARGV[1]  who     "<claim> <owner>"; a claim is one try to get one name: 32
--                    hexadecimal digits, never used twice
--   ARGV[2]  ttl     of the holding, in milliseconds
--   ARGV[3]  latest  the server time until which this request is meant; one that
--                    the network has kept for longer must not take anything
--   ARGV[4]  floor   the highest token that the caller has seen
-- and if the caller wants to wait
--   ARGV[5]  locker  the caller's client of ours, to which news are told: 16 digits
--   ARGV[6]  before  how often the queue may have been joined already: "" never,
--                    "again" maybe, "probe" maybe, and say a word on the channel
--
-- Answers
--   a token            the name is yours
--   0                  it is not free
--   -1                 the claim has been given up
--   {now}              the request came too late
--   {now, left, last, place, heard}  you are waiting: the holder has so many milliseconds
--                      left, that was the last token, so many wait before you, so
--                      many heard the word
--
-- All times and tokens are microseconds since 1970, in 16 digits, so that they
-- compare as text.

-- The name is free and nobody waits, or nobody did for long: three commands.
if #ARGV == 4 and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local t = redis.call('TIME')
  local now = t[1] .. string.sub('00000' .. t[2], -6)
  if now <= ARGV[3] and now > ARGV[4] then
    local last = redis.call('SET', KEYS[2], now, 'GET')
    if not last or #last == 16 and last < now then
      return now
    end
    redis.call('SET', KEYS[2], last)
  end
  redis.call('DEL', KEYS[1])
end
-- In all other cases nothing has happened so far.

--include shared.lua

local now = time()
if now > ARGV[3] then
  return { tonumber(now) }
end
local found = redis.call('MGET', KEYS[1], KEYS[2])
local holder, clock = found[1], read_clock(found[2])

if holder == ARGV[1] then
  -- An earlier answer or message was lost. A new token is as good as that one.
  return give(ARGV[1], ARGV[2], clock, now, ARGV[4])
end

if not holder then
  if redis.call('EXISTS', GONE) == 1 then
    return -1
  end
  local taken = false
  if redis.call('EXISTS', KEYS[1], QUEUE) > 0 then
    redis.call('GET', KEYS[1]) -- an error if it holds something else than a string
    -- A holder died, or lost the name. Those who wait come first.
    taken = hand_over(clock, now, ARGV[1])
  end
  if not taken then
    return give(ARGV[1], ARGV[2], clock, now, ARGV[4])
  end
end

local locker, before = ARGV[5], ARGV[6]
if not locker then
  return 0
end
if redis.call('EXISTS', GONE) == 1 then
  return -1
end

local entry = locker .. ' ' .. ARGV[2] .. ' ' .. ARGV[1]
local place = before ~= '' and redis.call('LPOS', QUEUE, entry)
if not place then
  place = redis.call('RPUSH', QUEUE, entry) - 1
end
redis.call('PEXPIRE', QUEUE, PATIENCE)
watch(clock, now, PATIENCE)

local heard = 0
if before == 'probe' and tell(CHANNEL .. locker, '') then
  heard = 1
end
return { tonumber(now), redis.call('PTTL', KEYS[1]), tonumber(clock.last), place, heard }

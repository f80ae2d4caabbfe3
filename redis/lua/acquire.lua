-- Takes the name if it is free, or else, if asked to, joins the queue. To send it
-- again for the same claim is harmless.
--
--   KEYS     as in shared.lua; lock and clock are enough for one who does not wait
--
--   ARGV[1]  who      "<claim> <owner>"
--   ARGV[2]  ttl      of the holding, in milliseconds
--   ARGV[3]  latest   the server time until which this request is meant; one that
--                     the network has kept for longer must not take anything
-- and with all four keys
--   ARGV[4]  floor    the highest token that the caller has seen
--   ARGV[5]  channel  where to tell the news, or nothing: do not wait
--   ARGV[6]  before   how often the queue may have been joined already: "" never,
--                     "again" maybe, "probe" maybe, and say a word on the channel
--
-- Answers
--   a token   the name is yours
--   0         it is not free
--   -1        the claim has been given up
--   -2        not known: ask with all four keys
--   {now}     the request came too late
--   "now left place heard last"  you are waiting: the holder has so many milliseconds
--             left, so many wait before you, so many heard the word, that was the last
--             token (and what follows it). A text, because the server takes much longer to
--             send a table

-- The name is free and nobody in its bucket has waited lately: three commands.
if #KEYS == 2 then
  if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
--include now.lua
    if now <= ARGV[3] then
      local clock = redis.call('SET', KEYS[2], now, 'GET')
      if not clock or #clock == 16 and clock < now then
        return now
      end
      redis.call('SET', KEYS[2], clock)
    end
    redis.call('DEL', KEYS[1]) -- as if nothing had happened
    return -2
  end
  return redis.call('GET', KEYS[1]) == ARGV[1] and -2 or 0
end

--include basic.lua

local now = time()
if now > ARGV[3] then
  return { tonumber(now) }
end
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[4])
local holder, clock = found[1], found[2]
local channel, before, heard = ARGV[5], ARGV[6], ' 0 '

-- Mostly somebody holds the name, others wait, and all there is to do is to join them.
if not holder or holder == ARGV[1] or found[3] or before == 'probe' or
  not clock or #clock ~= 33 or string.sub(clock, 18) < ARGV[3] then
--include shared.lua

  clock = sane(clock)
  if holder == ARGV[1] then
    -- An earlier answer or message was lost. A new token is as good as that one.
    return give(ARGV[1], ARGV[2], clock, now, next_token(clock, now, ARGV[4]))
  end
  if found[3] then
    return -1
  end

  if not holder then
    local taken = false
    if redis.call('EXISTS', KEYS[1], KEYS[3]) > 0 then
      redis.call('GET', KEYS[1]) -- an error if it holds something else than a string
      -- A holder died, or lost the name. Those who wait come first.
      taken = hand_over(clock, ARGV[1])
    end
    if not taken then
      return give(ARGV[1], ARGV[2], clock, now, next_token(clock, now, ARGV[4]))
    end
    clock = redis.call('GET', KEYS[2])
  end

  if channel ~= '' and string.sub(clock, 18) < ARGV[3] then
    watch(clock, now, PATIENCE / 2)
  end
  if before == 'probe' and tell(channel, '') then
    heard = ' 1 '
  end
end

if channel == '' then
  return 0
end
local entry = channel .. ' ' .. ARGV[2] .. ' ' .. ARGV[1]
local place = before ~= '' and redis.call('LPOS', KEYS[3], entry)
if not place then
  place = redis.call('RPUSH', KEYS[3], entry) - 1
end
redis.call('PEXPIRE', KEYS[3], PATIENCE)
return now .. ' ' .. redis.call('PTTL', KEYS[1]) .. ' ' .. place .. heard .. clock

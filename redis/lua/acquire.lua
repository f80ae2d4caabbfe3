-- Takes the name if it is free, or else, if asked to, joins the queue. To send it
-- again for the same claim is harmless.
--
--   KEYS     as in shared.lua; lock and clock are enough for one who does not wait
--
--   ARGV[1]  claim
--   ARGV[2]  owner
--   ARGV[3]  ttl      of the holding, in milliseconds
--   ARGV[4]  latest   the server time until which this request is meant; one that
--                     the network has kept for longer must not take anything
-- and with all four keys
--   ARGV[5]  floor    the highest token that the caller has seen
--   ARGV[6]  channel  where to tell the news, or nothing: do not wait
--   ARGV[7]  before   how often the queue may have been joined already: "" never,
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

local claim, owner, ttl = ARGV[1], ARGV[2], ARGV[3]

-- The name is free and nobody in its bucket has waited lately: five commands.
if #KEYS == 2 then
  if redis.call('HLEN', KEYS[1]) > 0 then
    return 0
  end
--include now.lua
  if now <= ARGV[4] then
    local clock = redis.call('SET', KEYS[2], now, 'GET')
    if not clock or #clock == 16 and clock < now then
--include take.lua
      return now
    end
    redis.call('SET', KEYS[2], clock) -- as if nothing had happened
  end
  return -2
end

--include basic.lua

local now = time()
if now > ARGV[4] then
  return { tonumber(now) }
end
local held = redis.call('HGETALL', KEYS[1])
local found = redis.call('MGET', KEYS[2], KEYS[4])
local holder, clock, ended = held[1], found[1], found[2]
local channel, before, heard = ARGV[6], ARGV[7], ' 0 '
local waiter = claim .. '+' -- as which it waits

-- Mostly somebody holds the name, others wait, and all there is to do is to join them.
if not holder or holder == claim or holder == waiter or ended or before == 'probe' or
  not clock or #clock ~= 33 or string.sub(clock, 18) < ARGV[4] then
--include shared.lua

  clock = sane(clock)
  if holder == claim or holder == waiter then
    -- An earlier answer or message was lost. A new token is as good as that one.
    return give(holder, owner, ttl, clock, now, next_token(clock, now, ARGV[5]))
  end
  if ended then
    return -1
  end

  if not holder then
    local taken = false
    if redis.call('EXISTS', KEYS[3]) == 1 then
      -- A holder died, or lost the name. Those who wait come first.
      taken = hand_over(clock, waiter)
    end
    if not taken then
      if redis.call('EXISTS', KEYS[3]) == 1 then
        claim = waiter -- others wait behind it
      end
      return give(claim, owner, ttl, clock, now, next_token(clock, now, ARGV[5]))
    end
    clock = redis.call('GET', KEYS[2])
  end

  if channel ~= '' and string.sub(clock, 18) < ARGV[4] then
    watch(clock, now, PATIENCE / 2)
  end
  if before == 'probe' and tell(channel, '') then
    heard = ' 1 '
  end
end

if channel == '' then
  return 0
end
if holder and #holder == 32 then -- the first who waits
  redis.call('HSET', KEYS[1], holder .. '+', held[2])
  redis.call('HDEL', KEYS[1], holder)
end
local entry = channel .. ' ' .. ttl .. ' ' .. waiter .. ' ' .. owner
local place = before ~= '' and redis.call('LPOS', KEYS[3], entry)
if not place then
  place = redis.call('RPUSH', KEYS[3], entry) - 1
end
redis.call('PEXPIRE', KEYS[3], PATIENCE)
return now .. ' ' .. redis.call('PTTL', KEYS[1]) .. ' ' .. place .. heard .. clock

-- What the scripts have in common that can give a name to somebody. A line before
-- this text says whether the channels are SHARDED, as in a Cluster.
--
--   KEYS[1]  lock   string "<claim> <owner>" with a time to live; it is there while
--                   somebody holds the name. A claim is one try to get one name:
--                   32 hexadecimal digits, never used twice
--   KEYS[2]  clock  string, the last token given to any name of this bucket
--   KEYS[3]  queue  list of "<channel> <ttl> <claim> <owner>", those who wait, the
--                   first to come first
--   KEYS[4]  gone   there, for some seconds, if the claim has been given up while a
--                   request of it might still be on its way
--
-- All times and tokens are microseconds since 1970, in 16 digits, so that they
-- compare as text.
--
-- Few names have a queue or a claim that is gone, and those who take a free name
-- should not have to look for them. So the clock is followed by a space and a time
-- while any name of its bucket may have them: until then they look.

-- The server's time.
local function time()
  local t = redis.call('TIME')
  return t[1] .. string.sub('00000' .. t[2], -6)
end

-- The text of the clock, if it is one.
local function sane(clock)
  if clock and (#clock == 16 or #clock == 33) then
    return clock
  end
  local last = tonumber(clock or '') or 0
  return string.format('%016.0f', last > 0 and last < 1e16 and last or 0)
end

-- The token after that of the clock: the server's time, so that tokens go on
-- rising when the data was lost, but always above the last one, so that they do
-- not go back with the time.
local function next_token(clock, now, floor)
  local last = string.sub(clock, 1, 16)
  if floor and floor > last then
    last = floor
  end
  return now > last and now or string.format('%016.0f', last + 1)
end

-- Sets the clock to a token, and to look until then or as long as before.
local function set_clock(clock, now, token, look)
  local before = string.sub(clock, 18)
  if not look or look < before then
    look = before
  end
  redis.call('SET', KEYS[2], look > now and token .. ' ' .. look or token)
end

-- From now on and for so many milliseconds there may be a queue, or a claim that
-- has been given up.
local function watch(clock, now, ms)
  if (tonumber(string.sub(clock, 18)) or 0) - now < ms * 500 then
    set_clock(clock, now, string.sub(clock, 1, 16), string.format('%016.0f', now + ms * 1000))
  end
end

-- Makes somebody the holder and returns the token.
local function give(who, ttl, clock, now, token)
  redis.call('SET', KEYS[1], who, 'PX', ttl)
  set_clock(clock, now, token)
  return token
end

-- Tells those who listen to a channel something and returns whether anybody does.
-- The count that PUBLISH answers includes those who subscribed to a pattern,
-- such as a monitoring tool, hence the question before it. An error (a user who
-- may not publish) counts as nobody: then the waiter finds out by itself.
local function tell(channel, text)
  local heard
  if SHARDED then
    heard = redis.pcall('SPUBLISH', channel, text)
  else
    heard = redis.pcall('PUBSUB', 'NUMSUB', channel)[2]
    if heard and heard > 0 then
      heard = redis.pcall('PUBLISH', channel, text)
    end
  end
  return type(heard) == 'number' and heard > 0
end

-- Gives the name to the first waiter whose process is alive, and forgets those
-- before it. Returns whether there was one. Stops where it meets the one who
-- asks, who then is the first. A waiter on the channel of the one who asks need not be
-- told there: the news is returned.
local function hand_over(clock, taker, own)
  while true do
    local waiter = redis.call('LPOP', KEYS[3])
    if not waiter then
      return false
    end
    local channel, ttl, who = string.match(waiter, '^(%S+) (%d+) (.*)$')
    if who then
      if who == taker then
        return false
      end
      local now = time()
      local token = next_token(clock, now)
      local news = string.sub(who, 1, 33) .. token .. ' ' .. now .. ' ' .. KEYS[1]
      if channel == own then
        give(who, ttl, clock, now, token)
        return news
      end
      if tell(channel, news) then
        give(who, ttl, clock, now, token)
        return true
      end
    end
  end
end

-- Sees to it that requests of this claim that arrive until the moment given
-- have no effect.
local function bury(clock, moment)
  local now = time()
  if moment >= now then
    local ms = math.ceil((moment - now) / 1000) + 1
    redis.call('SET', KEYS[4], '', 'PX', ms)
    watch(clock, now, 2 * ms)
  end
end

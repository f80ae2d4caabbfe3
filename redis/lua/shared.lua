-- What the scripts have in common that can give a name to somebody. KEYS[1] is the
-- lock, KEYS[2] the clock, ARGV[1] begins with the claim. The line with which the
-- text is put in front says whether the channels are sharded (S).
--
-- Two keys more are in the same slot, because they have the same hash tag:
--
--   QUEUE   list of "<locker> <ttl> <claim> <owner>", those who wait for the name, the
--           first to come first
--   GONE    there, for some seconds, if the claim has been given up while a request
--           of it might still be on its way
--
-- Few names have either, and those who take a free one should not have to look
-- for them. So the clock has a second part while any name of its bucket may have
-- them: "<last token> <time until which to look>".

local TAG = string.sub(KEYS[2], 1, -6) -- "<prefix>:{<bucket>}:"
local QUEUE = TAG .. 'queue:' .. string.sub(KEYS[1], #TAG + 6)
local GONE = TAG .. 'gone:' .. string.sub(ARGV[1], 1, 32)

-- The channel of a locker is this and its digits.
local CHANNEL = (S == 'S' and TAG or string.sub(TAG, 1, -6)) .. 'wake:'

-- After how many milliseconds without news from any waiter a queue is forgotten.
local PATIENCE = 60000

local ZERO = '0000000000000000'

-- The server's time.
local function time()
  local t = redis.call('TIME')
  return t[1] .. string.sub('00000' .. t[2], -6)
end

-- The time some milliseconds later.
local function later(now, ms)
  return string.format('%016.0f', now + ms * 1000)
end

local function read_clock(text)
  text = text or ''
  local last, look = string.match(text, '^(%d+) ?(%d*)$')
  if not last or #last > 16 then
    last = ZERO -- somebody else's doing
  end
  return { text = text, last = string.format('%016.0f', last), look = look or '' }
end

local function write_clock(clock, now)
  local text = clock.last
  if clock.look > now then
    text = text .. ' ' .. clock.look
  end
  if text ~= clock.text then
    redis.call('SET', KEYS[2], text)
    clock.text = text
  end
end

-- From now on and for so many milliseconds there may be a queue, or claims that
-- have been given up.
local function watch(clock, now, ms)
  if clock.look < later(now, ms / 2) then
    clock.look = later(now, ms)
    write_clock(clock, now)
  end
end

-- Sets the clock to the token after the last and returns it. A token is the
-- server's time, so that tokens go on rising when the data was lost, but always
-- above the last one, so that they do not go back with the time.
local function next_token(clock, now, floor)
  local last = clock.last
  if floor and floor > last then
    last = floor
  end
  clock.last = now > last and now or string.format('%016.0f', last + 1)
  write_clock(clock, now)
  return clock.last
end

-- Makes somebody the holder and returns the token.
local function give(who, ttl, clock, now, floor)
  redis.call('SET', KEYS[1], who, 'PX', ttl)
  return next_token(clock, now, floor)
end

-- Tells the waiters of a locker something and returns whether it still listens.
-- The count that PUBLISH answers includes those who subscribed to a pattern,
-- such as a monitoring tool, hence the question before it. An error (a user who
-- may not publish) counts as nobody: then the waiter finds out by itself.
local function tell(channel, text)
  if S == '' then
    local there = redis.pcall('PUBSUB', 'NUMSUB', channel)
    if there.err or there[2] == 0 then
      return false
    end
  end
  local heard = redis.pcall(S .. 'PUBLISH', channel, text)
  return type(heard) == 'number' and heard > 0
end

-- Gives the name to the first waiter whose process is alive, and forgets those
-- before it. Returns whether there was one. Stops where it meets the one who
-- asks, who then is the first.
local function hand_over(clock, now, taker)
  while true do
    local waiter = redis.call('LPOP', QUEUE)
    if not waiter then
      return false
    end
    local locker, ttl, who = string.match(waiter, '^(%x+) (%d+) (.*)$')
    if who and who == taker then
      return false
    end
    if who then
      now = now or time()
      local token = next_token(clock, now)
      local claim = string.sub(who, 1, 32)
      if tell(CHANNEL .. locker, claim .. ' ' .. token .. ' ' .. now .. ' ' .. KEYS[1]) then
        redis.call('SET', KEYS[1], who, 'PX', ttl)
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
    redis.call('SET', GONE, '', 'PX', ms)
    watch(clock, now, 2 * ms)
  end
end

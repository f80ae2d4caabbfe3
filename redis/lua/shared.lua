-- What the scripts have in common that can give a name to somebody. It stands where it is
-- needed: to make these functions takes the server as long as two commands.
--
--   KEYS[1]  lock   hash with one field, the claim that holds the name, whose value is the
--                   owner, and with a time to live; it is there while somebody holds the
--                   name. A claim is one try to get one name: 32 hexadecimal digits, never
--                   used twice. Once somebody waits a "+" follows it
--   KEYS[2]  clock  string, the last token given to any name of this bucket
--   KEYS[3]  queue  list of "<channel> <ttl> <claim>+ <owner>", those who wait, the
--                   first to come first
--   KEYS[4]  gone   there, for a while, if the claim has been given up while a
--                   request of it might still be on its way
--
-- Who has taken a name without waiting gives it back by HDEL, without a script. That finds
-- nothing if somebody has begun to wait: then there is a name to be handed over.
--
-- All times and tokens are microseconds since 1970, in 16 digits, so that they
-- compare as text.
--
-- Few names have a queue or a claim that is gone, and those who take a free name
-- should not have to look for them. So the clock is followed by a space and a mark,
-- another time, while any name of its bucket may have them: until GRACE after the mark
-- they look. Those who find the mark ahead of them need not set it.
local GRACE = 30000000

-- A claim that joins a queue which moves does so by a command, not by a script: that cannot
-- look whether the claim has been given up, nor whether it is late. One that a release takes
-- along is not looked at either. Where one was given up that may still be on its way, the mark
-- is followed by a space and the time until which those that come out of a queue have to be
-- looked at, and a release takes nobody along.

-- The text of the clock, if it is one.
local function sane(clock)
  if clock and (#clock == 16 or #clock == 33 or #clock == 50) then
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

-- Sets the clock to a token. What follows it stays as long as it is of use.
local function set_clock(clock, now, token)
  local mark, late = string.sub(clock, 18, 33), string.sub(clock, 35)
  if mark > now or now - (tonumber(mark) or 0) < GRACE then
    token = token .. ' ' .. mark
    if late > now then
      token = token .. ' ' .. late
    end
  end
  redis.call('SET', KEYS[2], token)
end

-- From now on and for so many milliseconds after GRACE there may be a queue, or a claim
-- that has been given up; until the moment given, if there is one, it may still join.
local function watch(clock, now, ms, moment)
  local mark, late = string.sub(clock, 18, 33), string.sub(clock, 35)
  local ahead = string.format('%016.0f', now + ms * 1000)
  local later = moment and moment > late
  if mark < ahead or later then
    local text = string.sub(clock, 1, 16) .. ' ' .. (mark < ahead and ahead or mark)
    late = later and moment or late
    redis.call('SET', KEYS[2], late == '' and text or text .. ' ' .. late)
  end
end

-- The fourth key of another claim: all of a bucket begin alike.
local function gone(claim)
  return string.sub(KEYS[2], 1, -6) .. 'gone:' .. string.sub(claim, 1, 32)
end

-- Makes somebody the holder and returns the token.
local function give(claim, owner, ttl, clock, now, token)
--include take.lua
  set_clock(clock, now, token)
  return token
end

-- Gives the name to the first waiter whose process is alive, and forgets those
-- before it, and those given up. Returns whether there was one. Stops where it meets the
-- one who asks, who then is the first. A waiter on the channel of the one who asks need not be
-- told there: the news is returned.
local function hand_over(clock, taker, own)
  while true do
    local waiter = redis.call('LPOP', KEYS[3])
    if not waiter then
      return false
    end
    local channel, ttl, claim, owner = string.match(waiter, '^(%S+) (%d+) (%S+) (.*)$')
    if claim then
      if claim == taker then
        return false
      end
      local now = time()
      local token = next_token(clock, now)
      local news = claim .. ' ' .. token .. ' ' .. now .. ' ' .. KEYS[1]
      local ended = string.sub(clock, 35) > now and redis.call('EXISTS', gone(claim)) > 0
      if not ended and channel == own then
        give(claim, owner, ttl, clock, now, token)
        return news
      end
      if not ended and tell(channel, news) then
        give(claim, owner, ttl, clock, now, token)
        return true
      end
    end
  end
end

-- Sees to it that requests of this claim that arrive until the moment given
-- have no effect; drifts says that one of them joins a queue and looks at nothing.
local function bury(clock, moment, drifts)
  local now = time()
  if moment >= now then
    local ms = math.ceil((moment - now) / 1000) + 1
    redis.call('SET', KEYS[4], '', 'PX', ms)
    watch(clock, now, ms, drifts == 'drifts' and moment)
  end
end

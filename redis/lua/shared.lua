-- Stands in front of the scripts that can give a name to somebody.
--
-- The keys of one name, always all four and in this order. They share a hash
-- tag, so that in a Cluster they are on one node.
--
--   KEYS[1]  lock    string "<claim> <token> <owner>" with a time to live; it is
--                    there while somebody holds the name
--   KEYS[2]  queue   list of "<claim> <locker> <ttl> <owner>", those who wait,
--                    the first to come first
--   KEYS[3]  clock   string, the last token given to any name of this bucket;
--                    it stays for ever
--   KEYS[4]  gone    there, for some seconds, if the claim was given up while a
--                    request of it might still be on its way
--
-- A claim is one try to get one name: 32 hexadecimal digits, never used twice.
-- A locker is a process's client of ours: 16 digits. Its waiters all listen to
-- the channel that is called after it.
--
--   ARGV[1]  claim   the caller's
--   ARGV[2]  what the name of every channel begins with
--   ARGV[3]  "S" for sharded channels (Cluster), or nothing
--   ARGV[4]  floor   the highest token that the caller has seen

-- The server's time in microseconds.
local function time()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- The token after last. It follows the server's clock, so that it goes on
-- rising when the data is lost, and never goes back, not even with the clock.
local function next_token(last, now)
  return math.max(now, (tonumber(last) or 0) + 1, ARGV[4] + 1)
end

-- Makes claim the holder.
local function give(claim, ttl, owner, token)
  local text = string.format('%.0f', token)
  redis.call('SET', KEYS[1], claim .. ' ' .. text .. ' ' .. owner, 'PX', ttl)
  redis.call('SET', KEYS[3], text)
end

-- Tells the waiters of a locker something and returns whether it still listens.
-- The count that PUBLISH answers includes those who subscribed to a pattern,
-- such as a monitoring tool, hence the question before it. An error (a user who
-- may not publish) counts as nobody: then the waiter finds out by itself.
local function tell(channel, text)
  if ARGV[3] == '' then
    local there = redis.pcall('PUBSUB', 'NUMSUB', channel)
    if there.err or there[2] == 0 then
      return false
    end
  end
  local heard = redis.pcall(ARGV[3] .. 'PUBLISH', channel, text)
  return type(heard) == 'number' and heard > 0
end

-- Gives the name to the first waiter whose process is alive, and forgets those
-- before it. Returns whether there was one. Stops where it meets the claim
-- taker, which then is the first.
local function hand_over(last, now, taker)
  while true do
    local waiter = redis.call('LPOP', KEYS[2])
    if not waiter then
      return false
    end
    local claim, locker, ttl, owner = string.match(waiter, '^(%x+) (%x+) (%d+) (.*)$')
    if claim and claim == taker then
      return false
    end
    if claim then
      now = now or time()
      local token = next_token(last, now)
      local text = string.format('%s %.0f %.0f %s', claim, token, now, KEYS[1])
      if tell(ARGV[2] .. locker, text) then
        give(claim, ttl, owner, token)
        return true
      end
    end
  end
end

-- Sees to it that requests of this claim that arrive until the moment given,
-- in server time, have no effect.
local function bury(moment)
  moment = tonumber(moment)
  if moment > 0 then
    local now = time()
    if moment >= now then
      redis.call('SET', KEYS[4], '', 'PX', math.ceil((moment - now) / 1000) + 1)
    end
  end
end

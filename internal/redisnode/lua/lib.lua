-- What the scripts have in common. A line before this text says whether the server is one of
-- a Cluster: SHARDED.
--
--   KEYS[1]  lock   who holds the name. An exclusive holder alone: a string
--                     1 <id> <weight> <limit> <ttl> <since> <token> <owner>
--                   Others: a hash with, for each holder, the field <id> and the value
--                     1 <until> <weight> <limit> <ttl> <since> <token> <owner>
--                   and the field "weight", the sum of their weights or more than that
--   KEYS[2]  queue  list of those who wait, the first to come first:
--                     1 <id> <weight> <limit> <spare> <ttl> <since> <channel> <owner>
--   KEYS[3]  clock  string, the last token given to any name of the bucket
--
-- The 1 is the version of the format. What begins otherwise is a later version's, or somebody
-- else's: it holds the name, or stands in the queue, and is left alone. An id is 32 hexadecimal
-- digits, a ttl is in milliseconds, since (the grant, or the joining of the queue), until and
-- tokens are microseconds since 1970. An owner may be any bytes.

local ALL = 2147483647             -- weight and limit of an exclusive claim
local PATIENCE = 60000             -- a queue at which no waiter looks is kept so many milliseconds
local LATEST = 4102444800000000    -- a clock beyond the year 2100 was not set by these scripts
local AHEAD = 1000                 -- the tokens of a grant are ahead of the time by so many at most

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local function text(number) return string.format('%.0f', number) end

-- Returns what a key holds; nil if it holds nothing, or something of another type.
local function value(command, ...)
  local v = redis.pcall(command, ...)
  if type(v) == 'table' and v.err then
    if string.find(v.err, 'WRONGTYPE', 1, true) then return nil end
    return redis.call(command, ...) -- fails for the same reason
  end
  return v or nil
end

-- Returns the token for the next grant: the time, so that tokens go on rising when the data was
-- lost, but always above the last one, so that they do not go back with the time; or the one
-- proposed if that is greater by less than a second. nil if the clock cannot be one.
local function next_token(proposed)
  local last = redis.call('EXISTS', KEYS[3]) == 0 and 0 or tonumber(value('GET', KEYS[3]))
  if not last or last < 0 or last >= LATEST then return nil end
  local token = math.max(now, last + 1)
  proposed = tonumber(proposed) or 0
  if proposed > token and proposed < token + 1000000 then return proposed end
  return token
end

-- Returns the record of the string or hash value of a holder, from its weight on.
local function record(weight, limit, ttl, since, token, owner)
  return weight .. ' ' .. limit .. ' ' .. ttl .. ' ' .. since .. ' ' .. token .. ' ' .. owner
end

-- Writes a holder who is not alone, or need not be.
local function add(id, weight, left, rest)
  redis.call('HSET', KEYS[1], id, '1 ' .. text(now + left * 1000) .. ' ' .. rest)
  redis.call('HINCRBY', KEYS[1], 'weight', weight)
  if redis.call('PTTL', KEYS[1]) < left then redis.call('PEXPIRE', KEYS[1], left) end
end

-- Makes a claim a holder of the name, which has room for it. Returns how many tokens above its
-- own are its, too.
local function hold(id, weight, limit, spare, ttl, token, owner)
  spare = math.max(0, math.min(spare, now + AHEAD - token))
  redis.call('SET', KEYS[3], text(token + spare))
  local rest = record(weight, limit, ttl, text(now), text(token), owner)
  if tonumber(weight) == ALL then
    redis.call('SET', KEYS[1], '1 ' .. id .. ' ' .. rest, 'NX', 'PX', ttl)
  else
    add(id, weight, tonumber(ttl), rest)
  end
  return spare
end

-- Returns the token and the rest of the record of a claim if it holds the name under this key.
local function held(id, lock)
  local v = value('GET', lock)
  if not v then
    v = value('HGET', lock, id)
  elseif string.sub(v, 1, 35) ~= '1 ' .. id .. ' ' then
    return nil
  end
  local rest, token = string.match(v or '', '^1 %x+ (%d+ %d+ %d+ %d+ (%d+) .*)$')
  return tonumber(token), rest
end

-- Removes a holder; returns whether it was one.
local function remove(id)
  if not held(id, KEYS[1]) then return false end
  if value('GET', KEYS[1]) then
    redis.call('DEL', KEYS[1])
    return true
  end
  local weight = string.match(redis.call('HGET', KEYS[1], id), '^1 %d+ (%d+)')
  redis.call('HDEL', KEYS[1], id)
  if redis.call('HINCRBY', KEYS[1], 'weight', -weight) <= 0 or redis.call('HLEN', KEYS[1]) <= 1 then
    redis.call('DEL', KEYS[1])
  end
  return true
end

-- Counts the holders' weights anew, without those whose time is over. No holding may last for
-- longer than its ttl from now on, which it would after the server's clock was set back. Returns
-- the weight of all and for how many milliseconds the first of them will stay, -1 if that is not
-- known, and who holds the name alone.
local function recount()
  local left = redis.call('PTTL', KEYS[1])
  if left == -2 then return 0, 0, '' end
  local v = value('GET', KEYS[1])
  local fields = v and {} or value('HGETALL', KEYS[1])
  if v or not fields then
    local id, ttl = string.match(v or '', '^1 (%x+) %d+ %d+ (%d+) ')
    if id and (left > tonumber(ttl) or left == -1) then
      redis.call('PEXPIRE', KEYS[1], ttl)
      left = tonumber(ttl)
    end
    return ALL, left, id or ''
  end
  local sum, first, last = 0, -1, 0
  for i = 1, #fields, 2 do
    local id, v = fields[i], fields[i + 1]
    local ends, rest, weight, ttl = string.match(v, '^1 (%d+) ((%d+) %d+ (%d+) .*)$')
    if not ends then
      if id ~= 'weight' then sum = sum + ALL end
    elseif tonumber(ends) <= now then
      redis.call('HDEL', KEYS[1], id)
    else
      local stays = math.ceil((ends - now) / 1000)
      if stays > tonumber(ttl) then
        stays = tonumber(ttl)
        redis.call('HSET', KEYS[1], id, '1 ' .. text(now + stays * 1000) .. ' ' .. rest)
      end
      if first < 0 or stays < first then first = stays end
      last, sum = math.max(last, stays), sum + weight
    end
  end
  if sum == 0 then
    redis.call('DEL', KEYS[1])
    return 0, 0, ''
  end
  redis.call('HSET', KEYS[1], 'weight', text(sum))
  if last > 0 and sum < ALL then redis.call('PEXPIRE', KEYS[1], last) end
  return sum, first, ''
end

-- Reports whether a claim may hold the name beside those who do.
local function fits(weight, limit)
  if redis.call('EXISTS', KEYS[1]) == 0 then return true end
  local sum = value('HGET', KEYS[1], 'weight')
  if sum and tonumber(sum) > 0 and sum + weight <= tonumber(limit) then return true end
  if not sum and value('GET', KEYS[1]) then return false end
  return recount() + weight <= tonumber(limit)
end

-- Tells those who listen to a channel. Errors (of a user who may not publish) are found by
-- check_subscription.lua.
local function tell(channel, news)
  redis.pcall(SHARDED and 'SPUBLISH' or 'PUBLISH', channel, news)
end

-- Reports whether somebody listens to a channel, those not counted who listen to a pattern.
local function listens(channel)
  local heard = redis.call('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', channel)
  return heard[2] > 0
end

-- Reads an entry of the queue.
local function parse(entry)
  return string.match(entry, '^1 (%x+) (%d+) (%d+) (%d+) (%d+) %d+ (%S+) (.*)$')
end

-- Grants the name to as many from the head of the queue as fit, and tells each: "granted <id>
-- <token> <spare> <now> <lock>". One to whom nobody listens is gone and passed over. What cannot be
-- granted (there is no memory, the clock is none) stays in the queue, where its waiter looks.
local function grant_waiting(proposed)
  while true do
    local entry = value('LINDEX', KEYS[2], 0)
    if not entry then return end
    local id, weight, limit, spare, ttl, channel, owner = parse(entry)
    if not id or not fits(weight, limit) then return end
    if listens(channel) then
      local token = next_token(proposed)
      local ok, more = pcall(hold, id, weight, limit, spare, ttl, token, owner)
      if not token or not ok then return end
      tell(channel, 'granted ' .. id .. ' ' .. text(token) .. ' ' .. text(more) .. ' ' .. text(now) .. ' ' .. KEYS[1])
    end
    redis.call('LPOP', KEYS[2])
  end
end


-- What the scripts have in common. A line before this text says whether the server is one of
-- a Cluster: SHARDED, and what time it is: now, in microseconds.
--
--   KEYS[1]  lock   who holds the name. An exclusive holder: a string
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
local AHEAD = 1000                 -- the tokens of a grant are ahead of the time, or of the one proposed, by so many at most
local LEAD = 100000                -- one that was proposed has spare ones if it is ahead by less

local lock, queue, clock = KEYS[1], KEYS[2], KEYS[3]
-- (In string.format %s ends at a zero byte: owners and names are put behind it.)
local function text(number) return string.format('%.0f', number) end

-- Returns what a key holds; nil if it holds nothing, and true besides if it is of another type.
local function value(command, ...)
  local v = redis.pcall(command, ...)
  if type(v) ~= 'table' or not v.err then return v or nil end
  if string.find(v.err, 'WRONGTYPE', 1, true) then return nil, true end
  return redis.call(command, ...) -- fails for the same reason
end

-- Who holds the name: the string of an exclusive holder, or else whether others do.
local alone, among
local function read() alone, among = value('GET', lock) end

-- Returns the token of a claim if it holds the name, its record from the weight on, and when its
-- time is over, if that of the key does not say so.
local function held(id)
  local v
  if among then
    v = value('HGET', lock, id)
  elseif alone and string.sub(alone, 1, 35) == '1 ' .. id .. ' ' then
    v = alone
  end
  if not v then return nil end
  local ends, rest, token = string.match(v, '^1 (%x+) (%d+ %d+ %d+ %d+ (%d+) .*)$')
  return tonumber(token), rest, among and tonumber(ends)
end

-- Writes the record of a holder, who has so many milliseconds left, and by how much the weight of
-- all has become greater.
local function put(id, rest, left, more)
  if alone then
    redis.call('SET', lock, '1 ' .. id .. ' ' .. rest, 'PX', left)
    return
  end
  redis.call('HSET', lock, id, '1 ' .. text(now + left * 1000) .. ' ' .. rest)
  redis.call('HINCRBY', lock, 'weight', more)
  if redis.call('PTTL', lock) < tonumber(left) then redis.call('PEXPIRE', lock, left) end
end

-- Ends the holding of a claim of this weight.
local function remove(id, weight)
  if alone or redis.call('HINCRBY', lock, 'weight', -weight) <= 0 then
    redis.call('DEL', lock) -- first: who has freed something may write, also if there is no memory
    alone, among = nil, false
  else
    redis.call('HDEL', lock, id)
  end
end

-- Counts the weights of all holders anew, without those whose time is over. No holding may last for
-- longer than its ttl from now on, as it would after the server's clock was set back. Returns the sum,
-- for how many milliseconds the first of them will stay, -1 if that is not known, and the id of
-- an exclusive holder.
local function recount()
  local left = redis.call('PTTL', lock)
  if not among then
    if not alone then return 0, 0, '' end
    local id, ttl = string.match(alone, '^1 (%x+) %d+ %d+ (%d+) ')
    if id and (left > tonumber(ttl) or left == -1) then
      left = tonumber(ttl)
      redis.call('PEXPIRE', lock, left)
    end
    return ALL, left, id or ''
  end
  local fields = value('HGETALL', lock)
  if not fields then return ALL, left, '' end
  local sum, first, last = 0, -1, 0
  for i = 1, #fields, 2 do
    local id, v = fields[i], fields[i + 1]
    local ends, rest, weight, ttl = string.match(v, '^1 (%d+) ((%d+) %d+ (%d+) .*)$')
    local stays = ends and math.ceil((ends - now) / 1000)
    if not ends then
      if id ~= 'weight' then sum = sum + ALL end
    elseif stays <= 0 then
      redis.call('HDEL', lock, id)
    else
      if stays > tonumber(ttl) then
        stays = tonumber(ttl)
        put(id, rest, ttl, 0)
      end
      if first < 0 or stays < first then first = stays end
      last, sum = math.max(last, stays), sum + weight
    end
  end
  if sum == 0 then
    redis.call('DEL', lock)
    among = false
    return 0, 0, ''
  end
  if sum < ALL then
    redis.call('HSET', lock, 'weight', text(sum))
    redis.call('PEXPIRE', lock, last)
  end
  return sum, first, ''
end

-- Reports whether a claim may hold the name beside those who do.
local function fits(weight, limit)
  if alone then return false end
  if not among then return true end
  local sum = tonumber((value('HGET', lock, 'weight')))
  if not sum or sum <= 0 or sum + weight > tonumber(limit) then sum = recount() end
  return sum + weight <= tonumber(limit)
end

-- Makes a claim, for which there is room, a holder of the name. Returns its token and how many above
-- that are its, too. The token is the time, so that tokens go on rising when the data was lost, but
-- always above the last one, so that they do not go back with the time; or the one proposed if that is
-- greater by less than a second. A clock that cannot be one counts as lost.
local function hold(id, weight, limit, spare, ttl, owner, proposed)
  spare = tonumber(spare)
  local ahead, from = math.min(spare, AHEAD), now
  local token, last = now, redis.pcall('SET', clock, now + ahead, 'GET')
  if type(last) == 'table' then last = redis.call('SET', clock, now + ahead) and 0 end -- it was no string
  last = tonumber(last or 0) or 0
  if last >= now and last < LATEST then token = last + 1 end
  if proposed > token and proposed < token + 1000000 then token, from = proposed, math.min(proposed, now + LEAD) end
  if token > now then
    ahead = math.max(0, math.min(spare, from + AHEAD - token))
    redis.call('SET', clock, token + ahead)
  end
  local record = string.format('%s %s %s %.0f %.0f ', weight, limit, ttl, now, token) .. owner
  if tonumber(weight) == ALL then
    alone = '1 ' .. id .. ' ' .. record
    redis.call('SET', lock, alone, 'NX', 'PX', ttl)
  else
    put(id, record, ttl, weight)
    among = true
  end
  return token, ahead
end

-- Tells those who listen to a channel. Errors (of a user who may not publish) are found by
-- check_subscription.lua.
local function tell(channel, news)
  redis.pcall(SHARDED and 'SPUBLISH' or 'PUBLISH', channel, news)
end

-- Reads an entry of the queue.
local function parse(entry)
  return string.match(entry, '^1 (%x+) (%d+) (%d+) (%d+) (%d+) %d+ (%S+) (.*)$')
end

-- Grants the name to as many from the head of the queue as fit, and tells each: "granted <id>
-- <token> <spare> <now> <lock>". One to whom nobody listens (those who listen to a pattern do not
-- count) is gone and passed over, as is what is no entry of any version. What cannot be granted,
-- because there is no memory, stays in the queue: its waiter is told when it looks.
local function grant_waiting(proposed)
  while true do
    local entry = value('LINDEX', queue, 0)
    if not entry then return end
    local id, weight, limit, spare, ttl, channel, owner = parse(entry)
    if id then
      if not fits(weight, limit) then return end
      if redis.call('PUBSUB', SHARDED and 'SHARDNUMSUB' or 'NUMSUB', channel)[2] > 0 then
        local ok, token, more = pcall(hold, id, weight, limit, spare, ttl, owner, tonumber(proposed))
        if not ok then return end
        tell(channel, string.format('granted %s %.0f %.0f %.0f ', id, token, more, now) .. lock)
      end
    elseif string.find(entry, '^%d+ ') then
      return
    end
    redis.call('LPOP', queue)
    if alone then return end
  end
end


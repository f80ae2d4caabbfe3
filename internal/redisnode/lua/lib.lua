-- What all scripts have in common.
--
--   KEYS[1]  lock   who holds the name: a string for an exclusive holder; for others a hash of their
--                   records by id, and in its field "weight" the sum of their weights, or more than that. It
--                   has a field "mixed" while a claim that waits has a greater limit than one that waits ahead of it
--                     1 <id> <ends> <weight> <limit> <ttl> <since> <token> <owner>
--   KEYS[2]  queue  list of the claims that wait, in their order, and of those that were granted the name before
--                   others that are ahead of them
--                     1 <id> <spare> <weight> <limit> <ttl> <since> <channel> <owner>
--   KEYS[3]  clock  string, the last token given to any name of the bucket
--
-- The 1 is the version of the format. What begins otherwise is a later version's, or somebody else's: it
-- holds the name, or stands in the queue, and is left alone. An id is 32 hexadecimal digits, a ttl is in
-- milliseconds, and greater by LINGERS where a holding was released and the name stays taken; an owner may be any bytes.
-- Since is when it was granted the name, or when it came to wait.

local ALL = 2147483647           -- weight and limit of an exclusive claim
local LINGERS = 1e12             -- 30 years: more than the ttl of any claim
local PATIENCE = 60000           -- milliseconds for which a queue is kept at which no waiter looks, or a hash in which nobody holds the name
local LATEST = 4102444800000000  -- a clock beyond the year 2100 was not set by these scripts

local lock, queue, clock = KEYS[1], KEYS[2], KEYS[3]

-- Returns what a reading command says: nil if there is nothing, and nil and true if the key is of another
-- type.
local function value(...)
  local v = redis.pcall(...)
  if type(v) ~= 'table' or not v.err then return v or nil end
  if string.find(v.err, 'WRONGTYPE', 1, true) then return nil, true end
  return redis.call(...) -- fails for the same reason
end

-- Splits a record of either kind; returns nil if it is none of this version.
local function parse(record)
  local id, number, weight, limit, ttl, since, word, owner =
    string.match(record or '', '^1 (%x+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (.*)$')
  return id and {
    text = record, id = id, ends = tonumber(number), spare = tonumber(number), weight = tonumber(weight),
    limit = tonumber(limit), ttl = tonumber(ttl), since = tonumber(since), token = tonumber(word), channel = word, owner = owner,
  }
end

-- Splits the record of a holder; one of another version holds the name alone, for ever.
local function holder(record)
  return parse(record) or { text = record, weight = ALL, ends = math.huge, ttl = math.huge }
end

-- Who holds the name: the exclusive holder, or else whether others do; and certain: the flag "mixed" is exact. It no longer is
-- once a claim of limit ALL leaves the queue, since what stood behind it was not examined, or a holder goes while the queue
-- is mixed, since the flag may go with the hash.
local alone, among, certain
local function read()
  local record, other = value('GET', lock)
  alone, among, certain = record and holder(record), other, other
end

-- Reports whether the queue is known to be mixed.
local function mixed() return among and redis.call('HGET', lock, 'mixed') end

-- Returns a holder by its id; nil if it holds nothing, or no longer.
local function held(id)
  local h = alone
  if among then h = parse(value('HGET', lock, id)) end
  return h and h.id == id and h.ends > now and h or nil
end

-- Writes a holder, by which the weight of all becomes so much greater.
local function put(h, more)
  local left = math.max(1, math.ceil((h.ends - now) / 1000))
  -- (In string.format %s ends at a zero byte: owners and names are put behind it.)
  local record = string.format('1 %s %.0f %.0f %.0f %.0f %.0f %.0f ',
    h.id, h.ends, h.weight, h.limit, h.ttl, h.since, h.token) .. h.owner
  if h.weight == ALL then
    alone, among = h, false
    redis.call('SET', lock, record, 'PX', left)
    return
  end
  alone, among = nil, true
  redis.call('HSET', lock, h.id, record)
  redis.call('HINCRBY', lock, 'weight', more)
  if redis.call('PTTL', lock) < left then redis.call('PEXPIRE', lock, left) end
end

-- Takes a claim out of the queue; returns it if it stood there.
local function take_out(id)
  for _, entry in ipairs(value('LRANGE', queue, 0, -1) or {}) do
    local c = string.sub(entry, 3, #id + 3) == id .. ' ' and parse(entry)
    if c then
      redis.call('LREM', queue, 0, entry)
      certain = certain and c.limit < ALL
      return c
    end
  end
end

-- Returns all holders.
local function holders()
  local all, fields = { alone }, among and redis.call('HGETALL', lock) or {} -- fails if it is of a type that no lock is
  for i = 1, #fields, 2 do
    if fields[i] ~= 'weight' and fields[i] ~= 'mixed' then table.insert(all, holder(fields[i + 1])) end
  end
  return all
end

-- Has the key stay no longer than the last holder.
local function shorten()
  local last = now
  for _, h in ipairs(holders()) do last = math.max(last, h.ends) end
  if last < math.huge then redis.call('PEXPIRE', lock, math.max(1, math.ceil((last - now) / 1000))) end
end

-- Removes the record of a holder. (A script that has deleted something may then write although there is no memory.)
local function remove(h)
  if among then
    redis.call('HDEL', lock, h.id)
    if redis.call('HINCRBY', lock, 'weight', -h.weight) > 0 then
      -- Not for less, nor where another stays longer: it goes through all holders.
      if h.ends > now + PATIENCE * 1000 and h.ends + 10000 > now + redis.call('PTTL', lock) * 1000 then shorten() end
      return
    end
  end
  redis.call('DEL', lock)
  alone, among = nil, false
end

-- Ends a holding, and its place in a mixed queue.
local function finish(h)
  if mixed() then
    take_out(h.id)
    certain = false
  end
  remove(h)
end

-- Returns all holders but those whose time is over, whom it removes, and remembers when the first of them will end, and
-- whether one lingers. Nobody may stay for longer than its ttl from now on, as it would after the server's clock was set
-- back.
local first_end, lingers = math.huge, false
local function present()
  local all = {}
  for _, h in ipairs(holders()) do
    if h.ends <= now then
      finish(h)
    else
      local longest = now + h.ttl % LINGERS * 1000
      if h.ends > longest then
        h.ends = longest
        put(h, 0)
      end
      lingers = lingers or h.id and h.ttl >= LINGERS
      first_end = math.min(first_end, h.ends)
      table.insert(all, h)
    end
  end
  return all
end

-- Reports whether a claim may hold the name beside those who do. It removes those whose time is over where they could be in
-- the way, and now and then, so that they do not pile up.
local function fits(c)
  local sum = among and tonumber((value('HGET', lock, 'weight')))
  if sum and sum + c.weight <= c.limit and sum % 64 ~= 0 then return true end
  sum = c.weight
  for _, h in ipairs(present()) do sum = sum + h.weight end
  return sum <= c.limit
end

-- Returns a token greater than all before and not less than this one, and how many above it are for the same
-- holder, at most spare. Spare ones are a millisecond ahead of the time, or of a token that was proposed, at
-- most. A clock that cannot be one counts as lost.
local function next_token(least, spare)
  local last = redis.pcall('GET', clock)
  last = type(last) == 'string' and tonumber(last) or 0
  if last >= LATEST then last = 0 end
  local token = math.max(last + 1, least)
  local ahead = math.max(now, math.min(least, now + 100000)) + 1000 - token
  local more = math.max(0, math.min(spare, ahead))
  redis.call('SET', clock, token + more)
  return token, more
end

-- Makes a claim, for which there is room, a holder. Its token is the time, so that tokens go on rising when
-- the data was lost, or the one proposed if that is ahead of the time by less than a second; but always
-- above the last one, so that they do not go back with the time. Returns it and how many above it are spare.
local function hold(c, proposed)
  if proposed > now + 1000000 then proposed = 0 end
  local token, more = next_token(math.max(now, proposed), c.spare)
  c.token, c.since, c.ends = token, now, now + c.ttl * 1000
  put(c, c.weight)
  return token, more
end

-- Tells those who listen to a channel. Node.test has found out whether the user may.
local function tell(channel, news) redis.pcall(publish(channel), channel, news) end

-- Reports whether somebody listens to the channel of a claim; those who listen to a pattern do not count.
local function listens(c) return redis.call('PUBSUB', listeners(c.channel), c.channel)[2] > 0 end

-- Has the first who waits and listens look where a holding lingers: it may know of another end.
local function tell_end()
  local i, entry = 0, lingers and value('LINDEX', queue, 0)
  while entry do
    local c = parse(entry)
    if c and not held(c.id) and listens(c) then return tell(c.channel, 'look ' .. c.id) end
    i = i + 1
    entry = value('LINDEX', queue, i)
  end
end

-- The id of the claim of which this request is, if it may be granted the name from the queue: it is told by the answer.
local asking

-- Reports whether a claim of the queue still waits: it is gone if nobody listens to its channel.
local function waits(c) return c.id == asking or listens(c) end

-- Grants the name to a claim of the queue, and tells it: "granted <id> <token> <spare> <now> <lock>". Returns true when it
-- holds the name; false when it is gone; nil when there is no memory: it stays in the queue, and is told when it looks.
local function grant(c, proposed)
  if not waits(c) then return false end
  local ok, token, more = pcall(hold, c, proposed)
  if not ok then return nil end
  if c.id ~= asking then tell(c.channel, string.format('granted %s %.0f %.0f %.0f ', c.id, token, more, now) .. lock) end
  return true
end

-- Grants the name to all claims in the queue that fit beside all that are ahead of them. One that is granted it before others
-- that are ahead of it stays in the queue, so that it does not count as ahead of them. Notes whether the queue is mixed.
local function grant_mixed(proposed)
  local weights, ahead = {}, 0
  for _, h in ipairs(present()) do
    weights[h.id or ''], ahead = h.weight, ahead + h.weight
  end
  local entries = value('LRANGE', queue, 0, -1) or {}
  for _, entry in ipairs(entries) do
    local c = parse(entry)
    ahead = ahead - (c and weights[c.id] or 0)
  end
  local least, is_mixed = nil, false -- the least limit of those who wait
  for _, entry in ipairs(entries) do
    local c = parse(entry)
    local weight = c and weights[c.id]
    local holds = weight ~= nil
    if not c then
      weight = string.find(entry, '^%d+ ') and ALL or 0
    elseif not holds and ahead + c.weight <= c.limit then
      holds = grant(c, proposed)
      if holds == nil then
        is_mixed = is_mixed or mixed() -- the rest is as it was
        break
      end
      weight = holds and c.weight or 0
    elseif not holds then
      weight = (alone or waits(c)) and c.weight or 0
    end
    if least and (holds or c and weight > 0 and c.limit > least) then is_mixed = true end
    if weight == 0 or holds and not least then
      redis.call('LREM', queue, 1, entry)
    elseif c and not holds then
      least = math.min(least or ALL, c.limit)
    end
    ahead = ahead + weight
    if ahead >= ALL then break end
  end
  if is_mixed then redis.pcall('HSET', lock, 'mixed', 1) elseif among then redis.call('HDEL', lock, 'mixed') end
end

-- Grants the name to all claims in the queue that fit. Unless it is mixed these stand at its head. What is gone is passed over,
-- as is what is no record of any version; but not while an exclusive holder is in everybody's way. Reports whether the queue is
-- empty.
local function grant_waiting(proposed)
  local at_head = not mixed()
  while at_head do
    local entry = value('LINDEX', queue, 0)
    if not entry then return true end
    local c = parse(entry)
    if c then
      local granted = false
      if fits(c) then
        granted = grant(c, proposed)
        if granted == nil then return false end
      elseif alone or waits(c) then
        if certain or c.limit == ALL then return false end
        break
      end
      certain = certain and (granted or c.limit < ALL)
    elseif string.find(entry, '^%d+ ') then
      return false
    end
    redis.call('LPOP', queue)
  end
  grant_mixed(proposed)
  return redis.call('EXISTS', queue) == 0
end

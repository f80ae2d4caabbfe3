-- Takes the name if there is room for the claim and nobody waits, or else, if asked to, joins the queue. For
-- a holder it counts the ttl anew. To send it again is harmless.
--
--   KEYS     lock, queue, clock; see lib.lua
--   KEYS[4]  gone      there if the claim was given up while a request of it might be on its way
--   ARGV[1]  entry     the claim, as it would stand in the queue
--   ARGV[2]  latest    the server's time at which this request may take effect at the latest
--   ARGV[3]  proposed  a token, or 0; a holder gets this or a greater one
--   ARGV[4]  how       "try": do not wait; "queue": wait; "yield": wait, and where it holds the name let
--                      those who are older and wait go before it
--   ARGV[5]  by age    1 if the queue is in the order of since, so that several servers agree on it, and 0 if
--                      in that of arrival
--
-- Answers
--   {1, now, token, spare}  it holds the name
--   {0, now, left, ahead}   it does not: the end of a holding is so many milliseconds away (-1: not
--                           known), or the ttl of one of the 16 who wait next before it, if that is less;
--                           and so many wait before it
--   {-1, now, 0, 0}         it was given up
--   {-2, now, 0, 0}         the request came too late
--   {-3, now, 0, 0}         it would wait, or let others go before it, but nobody listens to its channel

local c, proposed, how = parse(ARGV[1]), tonumber(ARGV[3]), ARGV[4]
if now > tonumber(ARGV[2]) then return { -2, now, 0, 0 } end
if redis.call('EXISTS', KEYS[4]) == 1 then return { -1, now, 0, 0 } end -- also while it lingers

-- Reports whether the claim is older than one that waits.
local function older(entry)
  local other = parse(entry)
  return other and (c.since < other.since or c.since == other.since and c.id < other.id)
end

-- Puts the claim into the queue, unless it stands there. Returns how many stand before it.
local function join()
  local place = redis.call('LPOS', queue, ARGV[1])
  if place then return place end
  local before
  place = redis.call('LLEN', queue)
  while ARGV[5] == '1' and place > 0 do
    local entry = redis.call('LINDEX', queue, place - 1)
    if not older(entry) then break end
    before, place = entry, place - 1
  end
  if not before then
    redis.call('RPUSH', queue, ARGV[1])
    return place
  end
  redis.call('LINSERT', queue, 'BEFORE', before, ARGV[1])
  local other = parse(before)
  if c.ttl < other.ttl then tell(other.channel, 'look ' .. other.id) end -- sooner than it would
  return place
end

read()
local own = held(c.id)
local first = own and how == 'yield' and value('LINDEX', queue, 0)
if first and not older(first) then
  if not listens(c) then return { -3, now, 0, 0 } end
  remove(own)
  join()
  own = nil
end
if not own then
  asking = c.id
  local empty = grant_waiting(proposed) -- a holder may have died, or lost the name: those who wait come first
  own = held(c.id)
  if not own and fits(c) and empty then
    local token, more = hold(c, proposed)
    return { 1, now, token, more }
  end
  -- Its limit may be greater than that of a claim that waits.
  local last = not own and not empty and among and parse(value('LINDEX', queue, -1))
  if last and (mixed() or c.limit > last.limit) and not redis.call('LPOS', queue, ARGV[1]) then
    join()
    grant_mixed(proposed)
    own = held(c.id)
    if how == 'try' and not own then take_out(c.id) end
  end
end
if own then
  tell_end()
  local more = 0
  if proposed > own.token then own.token, more = next_token(proposed, c.spare) end
  own.ends = now + c.ttl * 1000
  put(own, 0)
  return { 1, now, own.token, more }
end
local ahead, left, stays = -1, math.ceil((first_end - now) / 1000), redis.call('PTTL', lock)
if how == 'queue' or how == 'yield' then
  if not listens(c) then return { -3, now, 0, 0 } end
  ahead = join()
  redis.call('PEXPIRE', queue, PATIENCE)
  local before = ahead > 0 and redis.call('LRANGE', queue, math.max(0, ahead - 16), ahead - 1) or {} -- not all: they may be many
  for _, entry in ipairs(before) do
    local other = parse(entry)
    if other then left = math.min(left, other.ttl) end
  end
end
if stays >= 0 then left = math.min(left, stays) end -- somebody has shortened the life of the key
return { 0, now, left < math.huge and left or -1, ahead }

-- Takes the name if there is room for the claim and nobody waits, or else, if asked to, joins the
-- queue. To send it again for the same claim is harmless.
--
--   KEYS      lock, queue, clock; see lib.lua
--   KEYS[4]   gone      there if the claim was given up while a request of it might be on its way
--   ARGV[1]   id  [2] weight  [3] limit  [4] spare  [5] ttl
--   ARGV[6]   latest    the server's time at which this request may take effect at the latest
--   ARGV[7]   proposed  a token, or 0
--   ARGV[8]   owner
--   ARGV[9]   entry     what to put into the queue, or nothing: do not wait
--   ARGV[10]  how       "again" if it may stand there already; "yield" if moreover it is to let those go
--                       before it who are older, also where it holds the name; or ""
--   ARGV[11]  "age"     if the queue is in the order of since, so that several servers agree on it,
--                       and not in that of arrival
--
-- Answers
--   {1, now, token, spare}        it holds the name
--   {0, now, left, ahead, who}    it does not: the next holder's end is so many milliseconds away
--                                 (-1: not known), so many wait before it, that one holds it alone
--   {-1, now}                     it was given up
--   {-2, now}                     the request came too late

local id, weight, limit, spare, ttl = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if now > tonumber(ARGV[6]) then return { -2, now } end

local function take()
  local token, more = hold(id, weight, limit, spare, ttl, ARGV[8], tonumber(ARGV[7]))
  return { 1, now, token, more }
end

-- An earlier answer or message may have been lost: then the time is counted anew.
local function mine()
  local token, rest = held(id)
  if token then put(id, rest, ttl, 0) end
  return token and { 1, now, token, 0 }
end

-- Reports whether an entry, read from the queue, is younger than that of the claim.
local function younger(entry)
  local since = tonumber(string.match(entry, '^1 %x+ %d+ %d+ %d+ %d+ (%d+) '))
  local own = tonumber(string.match(ARGV[9], '^1 %x+ %d+ %d+ %d+ %d+ (%d+) '))
  return since and (own < since or own == since and ARGV[9] < entry)
end

-- Puts the entry into the queue and returns how many stand before it.
local function join()
  if ARGV[11] ~= 'age' then return redis.call('RPUSH', queue, ARGV[9]) - 1 end
  local next
  local place = redis.call('LLEN', queue)
  while place > 0 do
    local entry = redis.call('LINDEX', queue, place - 1)
    if not younger(entry) then break end
    next, place = entry, place - 1
  end
  if next then redis.call('LINSERT', queue, 'BEFORE', next, ARGV[9]) else redis.call('RPUSH', queue, ARGV[9]) end
  return place
end

read()
local granted = mine()
if granted and ARGV[10] == 'yield' then
  local first = value('LINDEX', queue, 0)
  if first and not younger(first) then
    remove(id, weight)
    join()
    grant_waiting(ARGV[7])
    granted = mine()
  end
end
if granted then return granted end
if redis.call('EXISTS', KEYS[4]) == 1 then return { -1, now } end
if not alone then
  -- If somebody waits a holder may have died, or lost the name. Those who wait come first.
  grant_waiting(ARGV[7])
  granted = mine()
  if granted then return granted end
  if redis.call('EXISTS', queue) == 0 and fits(weight, limit) then return take() end
end

local _, left, who = recount()
if among and left == -1 then redis.call('HLEN', lock) end -- fails if it is of a type that no lock is
local ahead = -1
if ARGV[9] then
  ahead = (ARGV[10] or '') ~= '' and redis.call('LPOS', queue, ARGV[9]) or join()
  redis.call('PEXPIRE', queue, PATIENCE)
end
return { 0, now, left, ahead, who }

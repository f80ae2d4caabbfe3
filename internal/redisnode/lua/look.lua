-- Shows who holds the name, in the order of the tokens, and the queue. It changes nothing.
--
--   KEYS  lock, queue; see lib.lua
--
-- Answers {now, the records of the holders, those in the queue, in which holders may stand, too}.

read()
local all, records = holders(), {}
table.sort(all, function(a, b) return (a.token or 0) < (b.token or 0) end)
for _, h in ipairs(all) do
  if h.ends > now then table.insert(records, h.text) end
end
return { now, records, value('LRANGE', queue, 0, -1) or {} }

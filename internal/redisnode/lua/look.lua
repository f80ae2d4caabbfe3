-- Shows who holds the name, in the order of the tokens, and who waits for it. It changes nothing.
--
--   KEYS  lock, queue; see lib.lua
--
-- Answers {now, the records of the holders, those in the queue}.

read()
local all, records, waiting, holds = holders(), {}, {}, {}
table.sort(all, function(a, b) return (a.token or 0) < (b.token or 0) end)
for _, h in ipairs(all) do
  if h.ends > now then
    table.insert(records, h.text)
    holds[h.id or ''] = true
  end
end
for _, entry in ipairs(value('LRANGE', queue, 0, -1) or {}) do
  local c = parse(entry)
  if not (c and holds[c.id]) then table.insert(waiting, entry) end
end
return { now, records, waiting }

-- Shows who holds the name and who waits for it. It changes nothing.
--
--   KEYS  lock, queue; see lib.lua
--
-- Answers {now, the records of the holders, those in the queue}.

read()
local records = {}
for _, h in ipairs(holders()) do table.insert(records, h.text) end
return { now, records, value('LRANGE', queue, 0, -1) or {} }

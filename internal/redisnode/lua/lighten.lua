-- Gives a holder a smaller weight and grants the name to those for whom that makes room.
--
--   KEYS     lock, queue, clock; see lib.lua
--   ARGV[1]  id
--   ARGV[2]  weight
--
-- Answers 1, or 0 if the claim does not hold the name.

read()
local h, weight = held(ARGV[1]), tonumber(ARGV[2])
if not h then return 0 end
if weight < h.weight then
  remove(h)
  h.weight = weight
  put(h, weight)
end
grant_waiting(0)
return 1

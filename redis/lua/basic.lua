-- What nearly every request needs that finds the name taken or waited for, but for those
-- that are the commonest: to make a function takes the server some time.

-- The server's time.
local function time()
--include now.lua
  return now
end

-- Tells those who listen to a channel something and returns whether anybody does.
local function tell(channel, news)
  local heard
--include tell.lua
  return heard
end

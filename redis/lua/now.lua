-- The server's time, as now.
local t = redis.call('TIME')
local now = #t[2] == 6 and t[1] .. t[2] or t[1] .. string.sub('00000' .. t[2], -6)

#!lua flags=no-writes
-- What stands beside a session's state. → {milliseconds left of its lease (-1: none), why it was handed back}

local asked = cmsgpack.unpack(ARGV[3])
if #asked ~= 1 or not words(asked[1]) then
  return refuse('a question of another form')
end

local got = call('HMGET', BASE .. 'session:' .. asked[1], 'l', 'q')
local now, left, why = look_at_clock(), -1, ''
local lease = got[1] and cmsgpack.unpack(got[1])
if lease and lease[4] ~= 'told' then
  settle_jumps(lease, jumps_known())
  left = math.max(0, lease[5] - now)
end
if got[2] then
  why = cmsgpack.unpack(got[2])[7]
end
return {left, why}

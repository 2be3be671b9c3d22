#!lua flags=no-writes
-- A session as it stands. → {now, catalog, version, state, recorded digest and reply, how it was removed, the event of
-- the log that is needed to read the state}
--
-- Nothing (nil, 0, '') stands where there is none.

local asked = cmsgpack.unpack(ARGV[3])
local session_id, command = asked[1], asked[2]
if #asked ~= 2 or not words(session_id, command) then
  return refuse('a question of another form')
end

local now = look_at_clock()
local got = call('HMGET', BASE .. 'session:' .. session_id, 'h', 's', 'c' .. command)
if got[1] then
  return {now, catalog_version(), version_of(got[1]), got[2], got[3], '', event_for(got[2], session_id)}
end
local left = call('HGET', BASE .. 'gone', session_id)
if not left then
  return {now, catalog_version(), 0, false, false, '', false}
end
left = cmsgpack.unpack(left)
return {now, catalog_version(), 0, false, left[2] == command and left[3], left[1], false}

#!lua flags=allow-oom
-- Remove a session that ended and of which nothing is open; keep what opened it for a while. → 1, or 0 if it stays
--
-- It is done though the memory is full: it makes room.

local what = cmsgpack.unpack(ARGV[3])
local session_id, version, status, keep_ms = what[1], what[2], what[3], what[4]
if #what ~= 4 or not words(session_id, status) or not (natural(version) and natural(keep_ms)) then
  return refuse('a removal of another form')
end

local key = BASE .. 'session:' .. session_id
local got = call('HMGET', key, 'h', 'l')
-- Only what may be removed stands in `ended`.
if not got[1] or head_of(got[1]).version ~= version or not call('ZSCORE', BASE .. 'ended', session_id) then
  return 0
end

local now = read_clock()
local head = head_of(got[1])
local opened_by = call('HGET', key, 'c' .. head.opener)
call('HSET', BASE .. 'gone', session_id, cmsgpack.pack({status, head.opener, opened_by}))
call('ZADD', BASE .. 'forget', text(now + keep_ms), session_id)
for which = 1, 4 do
  local place = place_of(head, which, session_id)
  if place then
    call('ZREM', BASE .. 'index', place)
  end
end
call('ZREM', BASE .. 'ended', session_id)
if got[2] then
  call('ZREM', BASE .. 'over', session_id)
end
call('UNLINK', key, BASE .. 'log:' .. session_id)
return 1

#!lua flags=allow-oom
-- Remove a session that ended and of which nothing is open, with its joins, pages and drafts; keep what opened it for a
-- while.
-- → 1, 0 if it stays, or 2 if it stays for now because it has more joins: it is to be removed again
--
-- At most 1000 joins at once. What they and the pages take is given back beside (UNLINK), however many rows there are.
--
-- It is done though the memory is full: it makes room.

local what = cmsgpack.unpack(ARGV[3])
local session_id, version, status, keep_ms = what[1], what[2], what[3], what[4]
if #what ~= 4 or not words(session_id, status) or not (natural(version) and natural(keep_ms)) then
  return refuse('a removal of another form')
end

local key = BASE .. 'session:' .. session_id
local got = call('HMGET', key, 'h', 'q', 'l', 'd', 't')
local head = got[1] and head_of(got[1])
if not head or head.version ~= version or not is_over(head, got[2], got[3], got[4], got[5]) then
  return 0
end

-- Return whether there are more.
local function remove_joins()
  local joins = call('LPOP', BASE .. 'joins:' .. session_id, '1000') or {}
  for _, join_id in ipairs(joins) do
    drop_look(join_id)
    call('UNLINK', key_of_join(join_id))
  end
  return #joins == 1000 and call('EXISTS', BASE .. 'joins:' .. session_id) == 1
end

if remove_joins() then
  return 2
end
local now = read_clock()
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
if got[3] then
  call('ZREM', BASE .. 'over', session_id)
end
call('UNLINK', key, BASE .. 'log:' .. session_id, BASE .. 'pages:' .. session_id, BASE .. 'drafts:' .. session_id)
return 1

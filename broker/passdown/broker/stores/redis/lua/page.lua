#!lua
-- Keep a page of a list of a session, which may not be there yet. → 1, or 0 where the session was removed
--
-- A session that is not there is noted, so that a tick forgets its pages where it is not opened in time.
--
-- ARGV[4] is the page: one, of 8 MiB at most.

local what = cmsgpack.unpack(ARGV[3])
local session_id, name, number, wait_ms, body = what[1], what[2], what[3], what[4], ARGV[4]
if #what ~= 4 or #ARGV ~= 4 or not words(session_id, name) or not (natural(number) and natural(wait_ms))
    or session_id == '' then
  return refuse('a page of another form')
end
if #body > 8 * 1024 * 1024 + 1 then
  return refuse('more than 8 MiB')
end
if call('HEXISTS', BASE .. 'gone', session_id) == 1 then
  return 0
end
call('HSET', BASE .. 'pages:' .. session_id, text(number) .. ':' .. name, body)
if call('EXISTS', BASE .. 'session:' .. session_id) == 0 then
  call('ZADD', BASE .. 'unopened', text(read_clock() + wait_ms), session_id)
end
return 1

#!lua flags=allow-oom
-- End a reservation: the pack may be taken again after a while. → 1, or 0 where there is none of that attempt.
--
-- It is done though the memory is full: it moves one member, and what holds work must be able to let go of it.

local back = cmsgpack.unpack(ARGV[3])
local session_id, step, attempt, after_ms, why = back[1], back[2], back[3], back[4], back[5]

if #back ~= 5 or not words(session_id, why) or not (natural(step) and natural(attempt) and natural(after_ms)) then
  return refuse('a hand-back of another form')
end

local key = BASE .. 'session:' .. session_id
local got = call('HMGET', key, 'q', 'h')
local queue = got[1] and cmsgpack.unpack(got[1])
if not queue or queue[3] ~= step or queue[4] ~= attempt then
  return 0
end

local now = read_clock()
local role = queue[1]
local handle = handle_of(head_of(got[2]).n, session_id)
call('ZADD', BASE .. 'queue:' .. role, POSTPONED + now + after_ms, handle)
call('ZADD', BASE .. 'roles', 'LT', '0', role)
vacate('R', session_id, queue[6])
queue[7] = why
call('HSET', key, 'q', cmsgpack.pack(queue))
return 1

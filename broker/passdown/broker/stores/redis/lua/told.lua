#!lua flags=allow-oom
-- Note up to where a session's log was told; where there is more, it is due for telling at once. → 1, or 0
--
-- It is done though the memory is full: it makes room.

local what = cmsgpack.unpack(ARGV[3])
local session_id, seq = what[1], what[2]
if #what ~= 2 or not words(session_id) or not natural(seq) then
  return refuse('what was told is of another form')
end

local key = BASE .. 'session:' .. session_id
local got = call('HMGET', key, 'h', 'q', 'l', 'd', 't')
if not got[1] then
  return 0
end
local now = read_clock()
local head = head_of(got[1])
-- A store that was put back to an older copy may be told of events that it does not hold: others take their places.
seq = math.min(seq, head.version)
if seq > head.told then
  head.told = seq
  call('HSET', key, 'h', head_bytes(head))
end
if head.told < head.upto then
  call('ZADD', BASE .. 'tell', 'LT', text(now), session_id)
  return 1
end
call('ZREM', BASE .. 'tell', session_id)
if head.filed ~= UNFILED and is_over(head, got[2], got[3], got[4], got[5]) then
  call('ZADD', BASE .. 'ended', text(head.changed_at), session_id)
end
return 1

#!lua
-- Keep what a person has written about a ticket so far, or forget it. → {what became of it, the version that it had}: 1
-- done, 0 nothing, for it is at another version, -1 nothing, for there is no such session
--
-- ARGV[4] is the draft, of 64 KiB at most; without it the one that is there is forgotten. A version of -1 means any.

local what = cmsgpack.unpack(ARGV[3])
local session_id, ticket_no, by, expected, body = what[1], what[2], what[3], what[4], ARGV[4]
if #what ~= 4 or #ARGV > 4 or not words(session_id, by) or not (natural(ticket_no) and whole(expected)) then
  return refuse('a draft of another form')
end
if body and #body > 64 * 1024 + 1 then
  return refuse('more than 64 KiB')
end
if call('EXISTS', BASE .. 'session:' .. session_id) == 0 then
  return {-1, 0}
end

local key, field = BASE .. 'drafts:' .. session_id, text(ticket_no) .. ':' .. by
local kept = call('HGET', key, field)
local version = kept and version_of(kept) or 0
if expected >= 0 and expected ~= version then
  return {0, version}
end
if body then
  call('HSET', key, field, struct.pack('>I6I6', version + 1, read_clock()) .. body)
else
  call('HDEL', key, field)
end
return {1, version}

#!lua
-- Count something beside a session's state. → 1, or 0 where the session was removed

local what = cmsgpack.unpack(ARGV[3])
if #what ~= 2 or not words(what[1], what[2]) then
  return refuse('a count of another form')
end
if call('HEXISTS', BASE .. 'gone', what[1]) == 1 then
  return 0
end
call('HINCRBY', BASE .. 'session:' .. what[1], '#' .. what[2], 1)
return 1

#!lua flags=allow-oom
-- Note that a join was looked at, as of a version of its record. → 1, or 0 where it has later rows, or there is none
--
-- It is done though the memory is full: it makes room.

local what = cmsgpack.unpack(ARGV[3])
if #what ~= 2 or not words(what[1]) or not natural(what[2]) then
  return refuse('a look of another form')
end
if call('EXISTS', key_of_join(what[1])) == 0 or version_of_join(what[1]) > what[2] then
  return 0
end
drop_look(what[1])
return 1

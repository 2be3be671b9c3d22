#!lua flags=allow-oom
-- Make a shard where there is none, and raise the format of one that is older: what it has is read as it is, and from
-- here on there is more that an older release does not know. → {the format it has, how many shards the store has}
--
-- It is done though the memory is full: it writes two fields once, and whoever opens a store may want to make room.

local what = cmsgpack.unpack(ARGV[3])
local format, shards = what[1], what[2]
if #what ~= 2 or not (natural(format) and natural(shards)) then
  return refuse('a store of another form')
end

local has = call('HMGET', META, 'format', 'shards')
if has[1] and tonumber(has[1]) >= format then
  return {tonumber(has[1]), tonumber(has[2])}
end
if has[1] then
  call('HSET', META, 'format', text(format))
  return {format, tonumber(has[2])}
end
call('HSET', META, 'format', text(format), 'shards', text(shards))
return {format, shards}

#!lua flags=allow-oom
-- Take over the catalog's version from the first shard, where that is newer. → the version from here on
--
-- It is done though the memory is full: it replaces a number.

local what = cmsgpack.unpack(ARGV[3])
if #what ~= 1 or not natural(what[1]) then
  return refuse('a version of another form')
end
if what[1] > catalog_version() then
  call('HSET', BASE .. 'catalog', 'version', text(what[1]))
end
return catalog_version()

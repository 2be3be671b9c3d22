#!lua
-- Keep documents by digest and make them current under their names; the catalog rises where one of these came to
-- mean something else. → the catalog's version. At most 500 documents;
-- ARGV[4] and on: their bodies.

local documents = cmsgpack.unpack(ARGV[3])
if #documents > 500 then
  return refuse('more than 500 documents')
end
if #ARGV ~= 3 + #documents then
  return refuse('another number of bodies')
end
for _, one in ipairs(documents) do
  if #one ~= 2 or not words(one[1], one[2]) then
    return refuse('a document of another form')
  end
end

local catalog = BASE .. 'catalog'
local changed = false
for i, one in ipairs(documents) do
  call('HSETNX', BASE .. 'documents', one[2], ARGV[3 + i])
  if call('HGET', catalog, one[1]) ~= one[2] then
    call('HSET', catalog, one[1], one[2])
    changed = true
  end
end
if changed then
  return call('HINCRBY', catalog, 'version', 1)
end
return catalog_version()

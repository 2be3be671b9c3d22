#!lua flags=no-writes
-- Records of a kind by name, those after one. → {name, record …}; at most 1000

local asked = cmsgpack.unpack(ARGV[3])
local kind, after, limit = asked[1], asked[2], asked[3]
if #asked ~= 3 or not words(kind, after) or not natural(limit) then
  return refuse('a question of another form')
end
if limit > 1000 then
  return refuse('more than 1000 records')
end

local found = {}
local names = call('ZRANGEBYLEX', BASE .. 'record-names:' .. kind, '(' .. after, '+', 'LIMIT', '0', text(limit))
if #names > 0 then
  local kept = call('HMGET', BASE .. 'records:' .. kind, unpack(names))
  for i, name in ipairs(names) do
    found[2 * i - 1], found[2 * i] = name, kept[i]
  end
end
return found

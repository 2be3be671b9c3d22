#!lua
-- Write records by name, all or none of them. → {}, or {number of the first that is at another version, that version}
--
-- Of each its kind, name, version before, and whether it is kept (1) or removed (0). One that is named again is compared
-- with what it is by then. At most 100; ARGV[4] and on: the bodies of those that are kept, of 64 KiB at most each.

local puts = cmsgpack.unpack(ARGV[3])

local function fault()
  if #puts > 100 then
    return 'more than 100 records'
  end
  local bodies = 0
  for _, put in ipairs(puts) do
    if type(put) ~= 'table' or #put ~= 4 or not words(put[1], put[2]) or not natural(put[3])
        or (put[4] ~= 0 and put[4] ~= 1) then
      return 'a record of another form'
    end
    bodies = bodies + put[4]
  end
  if #ARGV ~= 3 + bodies then
    return 'another number of bodies'
  end
  for i = 4, #ARGV do
    if #ARGV[i] > 64 * 1024 + 1 then
      return 'more than 64 KiB'
    end
  end
  return nil
end

local wrong = fault()
if wrong then
  return refuse(wrong)
end

local versions = {}
for i, put in ipairs(puts) do
  local key = BASE .. 'records:' .. put[1]
  local known = key .. '\0' .. put[2]
  if not versions[known] then
    local kept = call('HGET', key, put[2])
    versions[known] = kept and version_of(kept) or 0
  end
  if versions[known] ~= put[3] then
    return {i, versions[known]}
  end
  versions[known] = put[4] == 1 and put[3] + 1 or 0
end

local at = 4
for _, put in ipairs(puts) do
  local key, names = BASE .. 'records:' .. put[1], BASE .. 'record-names:' .. put[1]
  if put[4] == 1 then
    call('HSET', key, put[2], struct.pack('>I6', put[3] + 1) .. ARGV[at])
    call('ZADD', names, '0', put[2])
    at = at + 1
  else
    call('HDEL', key, put[2])
    call('ZREM', names, put[2])
  end
end
return {}

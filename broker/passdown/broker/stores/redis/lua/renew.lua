#!lua flags=allow-oom
-- Keep leases. → of each: 0 lost, 1 held, 2 cancelled. At most 500.
--
-- It is done though the memory is full: it replaces what is there, and a worker must not lose its claim for that.

local renewals = cmsgpack.unpack(ARGV[3])
if #renewals > 500 then
  return refuse('more than 500 renewals')
end
for _, one in ipairs(renewals) do
  if #one ~= 3 or not words(one[1], one[2]) or not natural(one[3]) then
    return refuse('a renewal of another form')
  end
end

local now = read_clock()
local jumped = (jumps_known())
local answer = {}

local function renew(session_id, claim_id, lease_ms)
  local key = BASE .. 'session:' .. session_id
  local bytes = call('HGET', key, 'l')
  local lease = bytes and cmsgpack.unpack(bytes)
  if not lease or lease[1] ~= claim_id or (lease[4] == 'told' and lease[5] <= now) then
    return 0
  end
  if lease[4] ~= 'held' then
    return 2
  end
  lease[5], lease[6], lease[7] = now + lease_ms, lease_ms, jumped
  call('HSET', key, 'l', cmsgpack.pack(lease))
  if call('ZADD', BASE .. 'leases', text(lease[5]), session_id) == 1 then
    call('ZREM', BASE .. 'handed', session_id)
  end
  return 1
end

for i, one in ipairs(renewals) do
  answer[i] = renew(one[1], one[2], one[3])
end
return answer

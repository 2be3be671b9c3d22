#!lua flags=allow-oom
-- Hand out the claims that stand where the server was started anew since any tick looked: it may have lost its last
-- moments, and what is under way is unknown (DESIGN §6). → {found a restart, when to look again, {session id, claim id …}}
--
-- A claim is handed out twice, for the one who gets it may die of it, and nobody says when a claim was looked at. At most
-- 1000 at once; when a restart is found, all claims that stand are noted in one go (10 ms for 10,000).
--
-- It is done though the memory is full: it notes what stands there, and forgets.

local request = cmsgpack.unpack(ARGV[3])
local limit, reserve_ms = request[1], request[2]

if #request ~= 2 or not (natural(limit) and natural(reserve_ms)) then
  return refuse('a look of another form')
end
if limit > 1000 then
  return refuse('more than 1000 claims')
end

-- More than the registrations that can be lost at once: none may come back under a count that stood for others.
local CATALOG_LEAP = 1000000

local key = BASE .. 'restarted'
local now = read_clock()
local run_id = string.match(call('INFO', 'server'), 'run_id:(%x+)')
local known = call('HGET', META, 'run_id')
local found = 0

if known ~= run_id then
  call('HSET', META, 'run_id', run_id)
  if known then
    found = 1
    call('HINCRBY', META, 'restarts', '1')
    call('ZUNIONSTORE', key, '1', BASE .. 'leases', 'WEIGHTS', '0')
    if call('EXISTS', BASE .. 'documents') == 1 then
      call('HINCRBY', BASE .. 'catalog', 'version', text(CATALOG_LEAP))
    end
  end
end

local claims = {}
local due = call('ZRANGEBYSCORE', key, '-inf', text(now), 'WITHSCORES', 'LIMIT', '0', text(limit))
for i = 1, #due, 2 do
  local session_id = due[i]
  local lease = call('HGET', BASE .. 'session:' .. session_id, 'l')
  lease = lease and cmsgpack.unpack(lease)
  local stands = lease and lease[4] ~= 'told'
  if stands then
    claims[#claims + 1] = session_id
    claims[#claims + 1] = lease[1]
  end
  if stands and due[i + 1] == '0' then
    call('ZADD', key, text(now + reserve_ms), session_id)
  else
    call('ZREM', key, session_id)
  end
end
local first = call('ZRANGE', key, '0', '0', 'WITHSCORES')
return {found, first[2] and math.max(0, tonumber(first[2]) - now) or -1, claims}

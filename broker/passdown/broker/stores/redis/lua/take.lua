#!lua
-- Reserve packs of a role, by score, and clear its bell. → {what is known as MessagePack, texts of each pack …}
--
-- What is known: more, now, catalog, and of each pack session id, step, attempt, solo, version. Its texts: state, pack,
-- and for each of these the event of the log that is needed to read it (nil: none). Slots may be 0: that only
-- clears the bell, and tells whether packs may be taken. At most 1000 slots; it looks at no more than 1000
-- packs beyond them, and at no more than 500 that come back from a reservation.
--
-- It is not done where the memory is full: no claim could be written either.

local request = cmsgpack.unpack(ARGV[3])
local role, slots, claim_by_ms = request[1], request[2], request[3]
local holding, role_limit, task_limit, linger_ms = request[4], request[5], request[6], request[7]

if #request ~= 7 or not words(role) or not (natural(slots) and natural(claim_by_ms) and natural(holding)
    and natural(role_limit) and natural(task_limit) and natural(linger_ms)) then
  return refuse('a request to take of another form')
end
if slots > 1000 then
  return refuse('more than 1000 slots')
end

local now = read_clock()
local of_role = BASE .. 'queue:' .. role
local come_back = free_packs(role, now, 500)

-- -- what the limits leave -----------------------------------------------------------------------------------

local room = math.huge
if role_limit > 0 then
  room = role_limit - call('ZCARD', BASE .. 'busy:' .. role)
    - call('ZCOUNT', of_role, '(' .. text(RESERVED + now), '(' .. text(POSTPONED))
end

-- Note what runs of each task; from here on every script does. This is done once in a store's life (10 ms for 10,000).
local function count_tasks()
  marks[5] = '1'
  call('HSET', META, 'limited', '1')
  for _, key in ipairs({'leases', 'handed'}) do
    for _, session_id in ipairs(call('ZRANGE', BASE .. key, '0', '-1')) do
      local lease = not string.find(session_id, '\0', 1, true) and call('HGET', BASE .. 'session:' .. session_id, 'l')
      if lease then
        occupy('L', session_id, cmsgpack.unpack(lease)[3], '+inf')
      end
    end
  end
  for _, other in ipairs(call('ZRANGE', BASE .. 'roles', '0', '-1')) do
    local found = call('ZRANGEBYSCORE', BASE .. 'queue:' .. other, RESERVED, '(' .. text(POSTPONED), 'WITHSCORES')
    for i = 1, #found, 2 do
      local session_id = string.sub(found[i], 13)
      local queue = cmsgpack.unpack(call('HGET', BASE .. 'session:' .. session_id, 'q'))
      occupy('R', session_id, queue[6], found[i + 1] - RESERVED)
    end
  end
end

if task_limit > 0 and not marks[5] then
  count_tasks()
end
local running = {}

local function task_has_room(task)
  if task_limit == 0 then
    return true
  end
  if not running[task] then
    running[task] = call('ZCOUNT', BASE .. 'busy-task:' .. task, '(' .. text(now), '+inf')
  end
  return running[task] < task_limit
end

-- -- choose --------------------------------------------------------------------------------------------------

local chosen, passed_over = {}, {}

-- Look at one pack; return whether to stop, and then whether more may be taken.
local function look_at(handle)
  if room <= 0 then
    return true, false
  end
  local session_id = string.sub(handle, 13)
  local queue = cmsgpack.unpack(call('HGET', BASE .. 'session:' .. session_id, 'q'))
  local task = queue[6]
  if not task_has_room(task) then
    passed_over[#passed_over + 1] = handle
    return false, false
  end
  if #chosen >= slots or (chosen[1] and chosen[1].queue[5] == 1) then
    return true, true
  end
  if queue[5] == 1 and (#chosen > 0 or holding == 1) then
    return false, true
  end
  chosen[#chosen + 1] = {handle = handle, session_id = session_id, queue = queue}
  room = room - 1
  if task_limit > 0 then
    running[task] = running[task] + 1
  end
  return false, false
end

local function choose()
  local left, looked = false, 0
  local most = slots + 1000
  while looked < most do
    local handles = call('ZRANGEBYSCORE', of_role, '-inf', '(' .. text(RESERVED), 'LIMIT', looked, math.min(slots, 99) + 1)
    for _, handle in ipairs(handles) do
      local stop, more = look_at(handle)
      if stop then
        return more
      end
      left = left or more
    end
    if #handles == 0 then
      return left and room > 0
    end
    looked = looked + #handles
  end
  -- Packs of tasks that have no room stand in the way: they wait aside for a second, and others come into sight.
  for _, handle in ipairs(passed_over) do
    call('ZADD', of_role, POSTPONED + now + 1000, handle)
  end
  return true
end

local more = choose()

-- -- reserve -------------------------------------------------------------------------------------------------

local known, answer = {0, now, catalog_version()}, {''}
local ends = now + claim_by_ms
for _, one in ipairs(chosen) do
  local queue, session_id = one.queue, one.session_id
  local key = BASE .. 'session:' .. session_id
  call('ZADD', of_role, RESERVED + ends, one.handle)
  occupy('R', session_id, queue[6], ends)
  local found = call('HMGET', key, 'h', 's', 'p' .. text(queue[3]) .. '/' .. text(queue[4]))
  local place = #known
  known[place + 1], known[place + 2], known[place + 3] = session_id, queue[3], queue[4]
  known[place + 4], known[place + 5] = queue[5], version_of(found[1])
  place = #answer
  answer[place + 1], answer[place + 2] = found[2], found[3]
  answer[place + 3], answer[place + 4] = event_for(found[2], session_id), event_for(found[3], session_id)
end
if linger_ms > 0 and #chosen == 0 and not more then
  -- The drain looks again by itself. Where that is known already nothing is written: it looks often.
  if (bell_of(role)) < now + linger_ms then
    set_bell(role, now + linger_ms, 0)
  end
elseif call('HDEL', BASE .. 'bells', role) == 1 then
  call('ZADD', BASE .. 'roles', 'XX', 'LT', '0', role)
end
known[1] = (more or come_back == 500) and 1 or 0
answer[1] = cmsgpack.pack(known)
return answer

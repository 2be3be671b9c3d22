#!lua
-- Atomic steps of sessions, one after the other and each by itself. → {answers as MessagePack, reply …}; an answer is
-- {'c', version, now, role to ring for …}, {'r', number of its reply}, {'s', version, clash} or {'f', waiting}
--
-- They are not written where the memory is full: they make logs longer.
-- ARGV[4] and on, of each step: the digest of the command's content, state, reply, row, what it is found by, the pack
-- (empty: none), what stands for the event before (empty: any) and for the last one, and the events.
-- At most: 50 steps; of each 1000 events, 1000 due entries, 1000 tickets. One that is of another form has all
-- refused. There are many in one call, for what a call costs by itself is half of what a step costs.

local steps = cmsgpack.unpack(ARGV[3])

-- The step that is looked at.
local session_id, command, expected, catalog, ended, task, opened_at, changed_at
local events, queue, lease, dues, tickets, tell, taking, room
local digest, state, reply, row, filed, pack, prev, tip, first_event

local function look_at(c, at)
  session_id, command, expected, catalog, ended, task, opened_at, changed_at = unpack(c, 1, 8)
  events, queue, lease, dues, tickets, tell, taking, room = unpack(c, 9, 16)
  digest, state, reply, row, filed, pack, prev, tip = unpack(ARGV, at, at + 7)
  first_event = at + 8
end

local function fault(c)
  if #c ~= 16 or not words(session_id, command, task, taking, tip) then
    return 'a commit of another form'
  end
  if #digest ~= 16 or #filed ~= 24 or #tip ~= 8 or (#prev ~= 8 and prev ~= '') or session_id == '' then
    return 'a digest or an id of another length'
  end
  if not (natural(expected) and whole(catalog) and natural(ended) and natural(opened_at) and natural(changed_at)
      and natural(events) and natural(tell) and natural(room)) then
    return 'a number that is none'
  end
  if events > 1000 then
    return 'more than 1000 events'
  end
  if #ARGV < first_event + events - 1 then
    return 'another number of events'
  end
  if type(queue) == 'table' then
    if #queue ~= 5 or not words(queue[1]) or not (natural(queue[2]) and natural(queue[3])
        and whole(queue[4]) and natural(queue[5])) then
      return 'a pack of another form'
    end
  elseif queue ~= '' and queue ~= 'withdraw' then
    return 'a pack of another form'
  end
  if type(lease) == 'table' then
    if #lease ~= 3 or not words(lease[1], lease[2]) or not natural(lease[3]) then
      return 'a lease of another form'
    end
  elseif lease ~= '' and lease ~= 'end' and lease ~= 'cancel' and lease ~= 'tell' then
    return 'a lease of another form'
  end
  if dues then
    if #dues > 1000 then
      return 'more than 1000 due entries'
    end
    for _, due in ipairs(dues) do
      if #due ~= 4 or not words(due[1], due[2]) or not (whole(due[3]) and natural(due[4])) then
        return 'a due entry of another form'
      end
    end
  end
  if tickets then
    if #tickets > 1000 then
      return 'more than 1000 tickets'
    end
    for _, ticket in ipairs(tickets) do
      if #ticket ~= 4 or not (natural(ticket[1]) and natural(ticket[3])) or not words(ticket[2], ticket[4])
          or #ticket[2] ~= 12 then
        return 'a ticket of another form'
      end
    end
  end
  return nil
end

local function fault_of_any()
  if type(steps) ~= 'table' or #steps > 50 then
    return 'more than 50 steps'
  end
  local at = 4
  for _, c in ipairs(steps) do
    if type(c) ~= 'table' then
      return 'a commit of another form'
    end
    look_at(c, at)
    local wrong = fault(c)
    if wrong then
      return wrong
    end
    at = first_event + events
  end
  return #ARGV ~= at - 1 and 'another number of events' or nil
end

local wrong = fault_of_any()
if wrong then
  return refuse(wrong)
end

-- -- compare -------------------------------------------------------------------------------------------------

local key, got, head
local said = {''}
-- What no step changes is read once.
local catalog_now, any_gone

local function is_current()
  if catalog >= 0 then
    catalog_now = catalog_now or catalog_version()
  end
  return catalog < 0 or catalog == catalog_now
end

-- Return what is left of a session that was removed, or nil.
local function left_of_it()
  if any_gone == nil then
    any_gone = call('EXISTS', BASE .. 'gone') == 1
  end
  local left = any_gone and call('HGET', BASE .. 'gone', session_id)
  return left and cmsgpack.unpack(left)
end

-- Return what is answered to a step that is not to be written, or nil.
local function compare()
  key = BASE .. 'session:' .. session_id
  got = call('HMGET', key, 'h', 'c' .. command, 'q', 'l', 'd', 't')
  head = got[1] and head_of(got[1])
  local recorded, version = got[2], 0
  if head then
    version = head.version
  else
    local left = left_of_it()
    if left and left[2] ~= command then
      return {'s', 0, 0}
    end
    recorded = left and left[3]
  end
  if recorded then
    if string.sub(recorded, 1, 16) == digest then
      said[#said + 1] = string.sub(recorded, 17)
      return {'r', #said - 1}
    end
    return {'s', version, 1}
  end
  if version ~= expected or (head and prev ~= '' and prev ~= head.tip) or not is_current() then
    return {'s', version, 0}
  end
  if room > 0 and expected == 0 and type(queue) == 'table' then
    local waiting = call('ZCARD', BASE .. 'queue:' .. queue[1])
    if waiting >= room then
      return {'f', waiting}
    end
  end
  return nil
end

-- -- write ---------------------------------------------------------------------------------------------------

local now
-- Roles of which `due` knows by this call, and those that are rung for.
local listed, rung = {}, {}

-- Of the numbers that new sessions may have the last one given; the call may leave some of them out.
local number

local function next_number()
  number = (number or call('HINCRBY', META, 'sessions', #steps) - #steps) + 1
  return number
end

local old_head, old_queue, old_lease, old_dues, old_tickets
local claimed_before, made_room, handle, sets, drops

local function prepare()
  now = now or read_clock()
  old_queue = got[3] and cmsgpack.unpack(got[3])
  old_lease = got[4] and cmsgpack.unpack(got[4])
  old_dues = got[5] and cmsgpack.unpack(got[5]) or {}
  old_tickets = got[6] and cmsgpack.unpack(got[6]) or {}
  claimed_before = old_lease and old_lease[4] ~= 'told'
  made_room = false
  old_head = head
  head = {
    version = expected + events,
    n = head and head.n or next_number(),
    opened_at = opened_at,
    changed_at = changed_at,
    told = head and head.told or 0,
    upto = head and head.upto or 0,
    ended = ended,
    tip = tip,
    filed = filed,
    opener = head and head.opener or command,
  }
  handle = handle_of(head.n, session_id)
  sets = {'r', row, 's', state, 'c' .. command, digest .. reply}
  drops = {}
end

local function keep(field, value)
  sets[#sets + 1] = field
  sets[#sets + 1] = value
end

local function drop(field)
  drops[#drops + 1] = field
end

local function unqueue()
  local of_role = BASE .. 'queue:' .. old_queue[1]
  if type(lease) ~= 'table' then
    local score = tonumber(call('ZSCORE', of_role, handle) or 0)
    made_room = score >= RESERVED and score < POSTPONED
  end
  call('ZREM', of_role, handle)
  call('ZREM', BASE .. 'queued:' .. old_queue[1], handle)
  vacate('R', session_id, old_queue[6])
end

local function enqueue()
  local role, score = queue[1], now - queue[4]
  call('ZADD', BASE .. 'queue:' .. role, score, handle)
  call('ZADD', BASE .. 'queued:' .. role, now, handle)
  if not listed[role] then
    call('ZADD', BASE .. 'roles', 'LT', '0', role)
    listed[role] = true
  end
  keep('q', cmsgpack.pack({role, score, queue[2], queue[3], queue[5], task, ''}))
  keep('p' .. text(queue[2]) .. '/' .. text(queue[3]), pack)
end

local function release_lease()
  if old_lease[4] == 'told' then
    call('ZREM', BASE .. 'over', session_id)
  else
    drop_lease(session_id)
    call('ZREM', BASE .. 'busy:' .. old_lease[2], session_id)
    vacate('L', session_id, old_lease[3])
  end
end

local function begin_lease()
  if old_lease then
    release_lease()
  end
  local runs_out = now + lease[3]
  call('ZADD', BASE .. 'leases', runs_out, session_id)
  call('ZADD', BASE .. 'busy:' .. lease[2], '0', session_id)
  occupy('L', session_id, task, '+inf')
  keep('l', cmsgpack.pack({lease[1], lease[2], task, 'held', runs_out, lease[3], (jumps_known())}))
end

local function turn_lease()
  if lease == 'end' then
    release_lease()
    drop('l')
  elseif old_lease[4] ~= 'told' then
    if lease == 'tell' then
      settle_jumps(old_lease, jumps_known())
      release_lease()
      call('ZADD', BASE .. 'over', old_lease[5], session_id)
    end
    old_lease[4] = lease == 'tell' and 'told' or 'cancelled'
    keep('l', cmsgpack.pack(old_lease))
  end
end

-- Entries that are named again keep their time, and their reservation, where they were reckoned twice.
local function replace_dues()
  local before, after = {}, {}
  for _, due in ipairs(old_dues) do
    before[due[1] .. '\0' .. due[2]] = due
  end
  for _, due in ipairs(dues) do
    local name, due_at = due[1] .. '\0' .. due[2], now + due[4]
    local was = before[name]
    local entry = {due[1], due[2], due[3], due_at}
    if was and was[3] == due[3] and (math.abs(was[4] - due_at) <= 100 or (was[4] <= now and due_at <= now)) then
      entry = was
    else
      if was then
        drop_due(session_id, was)
      end
      call('ZADD', BASE .. 'dues', due_at, due_member(session_id, entry))
    end
    before[name] = nil
    after[#after + 1] = entry
  end
  for _, due in pairs(before) do
    drop_due(session_id, due)
  end
  old_dues = after
  if #after > 0 then
    keep('d', cmsgpack.pack(after))
  elseif got[5] then
    drop('d')
  end
end

local function ticket_places(ticket)
  local place = struct.pack('>I6I5I4', ticket[3], head.n, ticket[1]) .. session_id
  return '000000000000' .. place, ticket[2] .. place
end

local function replace_tickets()
  for _, ticket in ipairs(old_tickets) do
    call('ZREM', BASE .. 'tickets', ticket_places(ticket))
  end
  for _, ticket in ipairs(tickets) do
    local all, of_queue = ticket_places(ticket)
    call('ZADD', BASE .. 'tickets', '0', all, '0', of_queue)
  end
  old_tickets = tickets
  if #tickets > 0 then
    keep('t', cmsgpack.pack(tickets))
  elseif got[6] then
    drop('t')
  end
end

-- Move the session in the index where it is found by something else from here on.
local function file()
  local moved = not old_head or old_head.opened_at ~= opened_at
  if not moved and old_head.filed == filed then
    return
  end
  local gone, new = {}, {}
  for which = 1, 4 do
    if moved or not same_filed(old_head, head, which) then
      gone[#gone + 1] = old_head and place_of(old_head, which, session_id) or nil
      local place = place_of(head, which, session_id)
      if place then
        new[#new + 1] = '0'
        new[#new + 1] = place
      end
    end
  end
  if #gone > 0 then
    call('ZREM', BASE .. 'index', unpack(gone))
  end
  if #new > 0 then
    call('ZADD', BASE .. 'index', unpack(new))
  end
end

local function write()
  if queue ~= '' then
    if old_queue then
      unqueue()
    end
    if queue == 'withdraw' then
      if old_queue then
        drop('q')
      end
    else
      enqueue()
    end
  end
  if type(lease) == 'table' then
    begin_lease()
  elseif lease ~= '' and old_lease then
    turn_lease()
  end
  if dues and (#dues > 0 or #old_dues > 0) then
    replace_dues()
  end
  if tickets and (#tickets > 0 or #old_tickets > 0) then
    replace_tickets()
  end
  if tell == 1 then
    head.upto = head.version
    -- Where something is to be told already, or somebody is telling it, it keeps its place.
    call('ZADD', BASE .. 'tell', 'NX', now, session_id)
  end
  file()
  if events > 0 then
    call('RPUSH', BASE .. 'log:' .. session_id, unpack(ARGV, first_event, first_event + events - 1))
  end
  keep('h', head_bytes(head))
  call('HSET', key, unpack(sets))
  if #drops > 0 then
    call('HDEL', key, unpack(drops))
  end
end

-- Note whether the session may be removed from here on.
local function note_end()
  local queued = type(queue) == 'table' or (queue == '' and old_queue)
  local claimed = type(lease) == 'table' or (old_lease and old_lease[4] ~= 'told' and lease ~= 'end')
  if head.ended == 1 and not queued and not claimed and #old_dues == 0 and #old_tickets == 0
      and head.told >= head.upto then
    call('ZADD', BASE .. 'ended', changed_at, session_id)
  elseif old_head and old_head.ended == 1 then
    call('ZREM', BASE .. 'ended', session_id)
  end
end

-- -- ring ----------------------------------------------------------------------------------------------------

-- A role that the same call takes from is not rung for: the take says whether packs remain.
local function ring(role, filled, answer)
  if role == taking or rung[role] then
    return
  end
  local rung_until, backoff = bell_of(role)
  if rung_until <= now then
    if not filled and not has_ready(role, now) then
      return
    end
    set_bell(role, now + RUNG_MS, backoff)
    answer[#answer + 1] = role
  end
  rung[role] = true
end

local function ring_all(answer)
  local filled = type(queue) == 'table' and queue[1] or nil
  if filled then
    ring(filled, true, answer)
  end
  if (lease == 'end' or lease == 'tell') and claimed_before then
    ring(old_lease[2], false, answer)
  end
  if made_room then
    ring(old_queue[1], false, answer)
  end
end

local answers, at = {}, 4
for i, c in ipairs(steps) do
  look_at(c, at)
  at = first_event + events
  local answer = compare()
  if not answer then
    prepare()
    write()
    note_end()
    answer = {'c', head.version, now}
    ring_all(answer)
  end
  answers[i] = answer
end
said[1] = cmsgpack.pack(answers)
return said

#!lua
-- Atomic steps of sessions, one after the other and each by itself. → {answers as MessagePack, reply …}; an answer is
-- {'c', version, now, role to ring for …}, {'w', version, now, {join to look at …}, role to ring for …},
-- {'r', number of its reply}, {'s', version, clash} or {'f', waiting}
--
-- They are not written where the memory is full: they make logs longer.
-- ARGV[4] and on, of each step: the digest of the command's content, state, reply, row, what it is found by, the pack
-- (empty: none), what stands for the event before (empty: any) and for the last one, the events, and the mark of its
-- row in a join, if it has one.
-- At most: 50 steps; of each 1000 events, 1000 due entries, 1000 tickets, one join with 20 wakes of 20 outcomes, and one
-- row in a join. One that is of another form has all refused. There are many in one call, for what a call costs by
-- itself is half of what a step costs.

local steps = cmsgpack.unpack(ARGV[3])

-- The step that is looked at.
local session_id, command, expected, catalog, ended, task, opened_at, changed_at
local events, queue, lease, dues, tickets, tell, taking, room
-- False, or what it writes of joins: {its own {id, wakes, closed on (-1: it is not), rewrites seen} or false, the row of
-- a branch {id of the join, place, outcome} or false}.
local joins
local digest, state, reply, row, filed, pack, prev, tip, first_event

local function look_at(c, at)
  session_id, command, expected, catalog, ended, task, opened_at, changed_at = unpack(c, 1, 8)
  events, queue, lease, dues, tickets, tell, taking, room, joins = unpack(c, 9, 17)
  digest, state, reply, row, filed, pack, prev, tip = unpack(ARGV, at, at + 7)
  first_event = at + 8
end

-- Return the mark of the row that a step writes in a join, which stands behind its events, or nil.
local function mark_of_row()
  return joins and joins[2] and ARGV[first_event + events]
end

local function fault_of_wakes(wakes)
  if type(wakes) ~= 'table' or #wakes > 20 then
    return 'more than 20 wakes'
  end
  for _, wake in ipairs(wakes) do
    if type(wake) ~= 'table' or #wake > 21 or not natural(wake[1]) or not words(unpack(wake, 2)) then
      return 'a wake of another form'
    end
  end
  return nil
end

local function fault_of_joins()
  if type(joins) ~= 'table' or #joins ~= 2 then
    return 'joins of another form'
  end
  local put, row_of = joins[1], joins[2]
  if put then
    if type(put) ~= 'table' or #put ~= 4 or not words(put[1]) or session_of(put[1]) ~= session_id
        or not (whole(put[3]) and put[3] >= -1 and natural(put[4])) then
      return 'a join of another form'
    end
    local wrong = fault_of_wakes(put[2])
    if wrong then
      return wrong
    end
  end
  if row_of and (type(row_of) ~= 'table' or #row_of ~= 3 or not (words(row_of[1], row_of[3]) and natural(row_of[2]))
      or #row_of[3] > 255 or #(mark_of_row() or '') <= 16) then
    return 'a row of another form'
  end
  return nil
end

-- A lane's members are put together with zero bytes.
local function fault_of_tickets()
  if #tickets > 1000 then
    return 'more than 1000 tickets'
  end
  for _, ticket in ipairs(tickets) do
    if #ticket ~= 7 or not (natural(ticket[1]) and natural(ticket[3])) or not words(unpack(ticket, 4))
        or not words(ticket[2]) or #ticket[2] ~= 12 or (#ticket[5] ~= 12 and ticket[5] ~= '')
        or string.find(ticket[7], '\0', 1, true) then
      return 'a ticket of another form'
    end
  end
  return nil
end

local function fault(c)
  if #c ~= 17 or not words(session_id, command, task, taking, tip) then
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
  local wrong = tickets and fault_of_tickets()
  if wrong then
    return wrong
  end
  return joins and fault_of_joins() or nil
end

-- Return where the texts of the next step begin.
local function next_step()
  return first_event + events + (joins and joins[2] and 1 or 0)
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
    at = next_step()
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

-- Return the record of a join; one that is new where there is none.
local function record_of(join_id)
  local kept = call('HGET', key_of_join(join_id), 'h')
  if not kept then
    return {id = join_id, new = true, version = 0, rewrites = 0, closed = 0, counts = {}, wakes = {}}
  end
  local record, rest = {id = join_id}, 1
  record.version, record.rewrites, record.closed, rest = struct.unpack(JOIN, kept)
  record.counts, record.wakes = unpack(cmsgpack.unpack(string.sub(kept, rest)))
  return record
end

-- Return whether what is decided about a join rests on rows that are no longer as they were, or it is closed already
-- in another way.
local function is_outdated(put)
  local upto, rewrites = put[3], put[4]
  if upto < 0 then
    return false
  end
  local record = record_of(put[1])
  return record.rewrites ~= rewrites or record.version < upto or (record.closed > 0 and record.closed ~= upto + 1)
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
  if joins and joins[1] and is_outdated(joins[1]) then
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

-- Return where tickets stand: what they are found by in `tickets`, and of those on offer {lane, member}, by both of them.
local function places_of(some)
  local found_by, offered = {}, {}
  for _, ticket in ipairs(some) do
    local place = struct.pack('>I6I5I4', ticket[3], head.n, ticket[1]) .. session_id
    found_by['000000000000' .. place], found_by[ticket[2] .. place] = true, true
    -- Format 2 had neither holders nor lanes.
    if (ticket[5] or '') ~= '' then
      found_by[ticket[5] .. place] = true
    end
    if (ticket[6] or '') ~= '' then
      local member = ticket[7] .. '\0' .. session_id .. '\0' .. string.format('%010.0f', ticket[1])
      offered[member .. '\0' .. ticket[6]] = {ticket[6], member}
    end
  end
  return found_by, offered
end

local function key_of_lane(lane)
  return BASE .. 'lane:' .. redis.sha1hex(lane)
end

local function offer(lane, member)
  if call('ZADD', key_of_lane(lane), '0', member) == 1 then
    call('SADD', BASE .. 'lanes', lane)
  end
end

-- The last one of a lane takes it along.
local function take_back(lane, member)
  call('ZREM', key_of_lane(lane), member)
  if call('EXISTS', key_of_lane(lane)) == 0 then
    call('SREM', BASE .. 'lanes', lane)
  end
end

-- What stands where it stood is left alone: most steps change one ticket.
local function replace_tickets()
  local found_before, offered_before = places_of(old_tickets)
  local found_by, offered = places_of(tickets)
  for member in pairs(found_by) do
    if not found_before[member] then
      call('ZADD', BASE .. 'tickets', '0', member)
    end
  end
  for member in pairs(found_before) do
    if not found_by[member] then
      call('ZREM', BASE .. 'tickets', member)
    end
  end
  for name, one in pairs(offered) do
    if not offered_before[name] then
      offer(one[1], one[2])
    end
  end
  for name, one in pairs(offered_before) do
    if not offered[name] then
      take_back(one[1], one[2])
    end
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

local function is_woken(record)
  for _, wake in ipairs(record.wakes) do
    local rows = 0
    for i = 2, #wake do
      rows = rows + (record.counts[wake[i]] or 0)
    end
    if rows >= wake[1] then
      return true
    end
  end
  return false
end

-- Let a join be looked at after a moment, unless that is about to happen anyway.
local function look_soon(join_id)
  local look = look_of(join_id)
  if not call('ZSCORE', BASE .. 'handed', look) then
    call('ZADD', BASE .. 'dues', 'NX', now + WOKEN_MS, look)
  end
end

local function head_of_join(record)
  return struct.pack(JOIN, record.version, record.rewrites, record.closed)
    .. cmsgpack.pack({record.counts, record.wakes})
end

-- Write what a parent says of its join; return whether it must be looked at by that.
local function put_join(put)
  local record = record_of(put[1])
  if record.new then
    call('RPUSH', BASE .. 'joins:' .. session_id, record.id)
  else
    record.version = record.version + 1
  end
  record.wakes = put[2]
  if put[3] >= 0 then
    record.closed = put[3] + 1
  end
  call('HSET', key_of_join(record.id), 'h', head_of_join(record))
  if is_woken(record) then
    look_soon(record.id)
    return true
  end
  drop_look(record.id)
  return false
end

local function count_rows(record, outcome, more)
  local rows = (record.counts[outcome] or 0) + more
  record.counts[outcome] = rows > 0 and rows or nil
end

-- Write a row; return whether its join must be looked at by that. One of a join that there is not is left out, and so
-- is one that says nothing new, or comes after the join was closed on the one that stands there and has ended.
local function put_row(row_of, mark)
  local record = record_of(row_of[1])
  if record.new then
    return false
  end
  local of_join, place, outcome, about = key_of_join(record.id), text(row_of[2]), row_of[3], string.sub(mark, 1, 16)
  local before = call('HGET', of_join, place)
  if before then
    local order, about_before, outcome_before = struct.unpack('>I6c16Bc0', before)
    local stays = order < record.closed and not UNENDED[outcome_before]
    if stays or (outcome == outcome_before and about == about_before) then
      return false
    end
    count_rows(record, outcome_before, -1)
    if not UNENDED[outcome_before] then
      record.rewrites = record.rewrites + 1
    end
  end
  record.version = record.version + 1
  count_rows(record, outcome, 1)
  local kept = struct.pack('>I6', record.version) .. about .. string.char(#outcome) .. outcome .. string.sub(mark, 17)
  call('HSET', of_join, place, kept, 'h', head_of_join(record))
  if is_woken(record) then
    look_soon(record.id)
    return true
  end
  return false
end

-- Write what a step says of joins; return those that must be looked at by that.
local function write_joins()
  local woke = {}
  if joins[1] and put_join(joins[1]) then
    woke[1] = joins[1][1]
  end
  if joins[2] and put_row(joins[2], mark_of_row()) then
    woke[#woke + 1] = joins[2][1]
  end
  return woke
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
      and head.told >= head.upto and filed ~= UNFILED then
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
  at = next_step()
  local answer = compare()
  if not answer then
    prepare()
    write()
    note_end()
    local woke = joins and write_joins()
    if woke and #woke > 0 then
      answer = {'w', head.version, now, woke}
    else
      answer = {'c', head.version, now}
    end
    ring_all(answer)
  end
  answers[i] = answer
end
said[1] = cmsgpack.pack(answers)
return said

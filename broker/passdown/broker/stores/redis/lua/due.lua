#!lua flags=allow-oom
-- Reserve what is due and what is to be told, and ring where packs wait in vain.
-- → {now, when to look again, postponed by, postponed so far, catalog,
--    {session id, kind, subject, at, due at …}, {session id, after, upto, due at …}, {role …}}
--
-- At most 1000 entries, 1000 to be told; in one go no more than 500 leases are postponed, 500 packs put back
-- into their queues, 200 roles looked at, and 500 claims that are over, 500 removed sessions and the pages of 500
-- that were never opened forgotten (beside, by UNLINK, however many they are). What is left over is due at once.
--
-- It is done though the memory is full: it moves what is there, and forgets.

local request = cmsgpack.unpack(ARGV[3])
local limit, reserve_ms, elapsed_ms, last_at, last_postponed = unpack(request, 1, 5)
local most_told, ticks = request[6], request[7]

if #request ~= 7 or not (natural(limit) and natural(reserve_ms) and whole(elapsed_ms) and whole(last_at)
    and whole(last_postponed) and natural(most_told) and natural(ticks)) then
  return refuse('a tick of another form')
end
if limit > 1000 or most_told > 1000 then
  return refuse('more than 1000 entries')
end

-- What a clock may gain between two asks before it counts as a jump (ticks and disks stall, too).
local SLACK_MS = 5000
-- How old the mark of the last ask may get.
local MARK_MS = 1000
local MOST_NEXT_MS = 60000
-- So many jumps are remembered one by one.
local MOST_JUMPS = 16
local MOST_AT_ONCE = 500
local MOST_ROLES = 200

local now = read_clock()
local next_at = now + MOST_NEXT_MS

local function look_again_at(time)
  next_at = math.min(next_at, time)
end

local function first_of(key)
  local first = call('ZRANGE', key, '0', '0', 'WITHSCORES')
  return first[2] and tonumber(first[2])
end

-- -- telling -------------------------------------------------------------------------------------------------

local telling = {}

local function reserve_telling()
  if most_told == 0 then
    return
  end
  local key = BASE .. 'tell'
  local found = call('ZRANGEBYSCORE', key, '-inf', text(now), 'WITHSCORES', 'LIMIT', '0', text(most_told + 1))
  for i = 1, math.min(#found, 2 * most_told), 2 do
    local session_id = found[i]
    local head = head_of(call('HGET', BASE .. 'session:' .. session_id, 'h'))
    call('ZADD', key, text(now + reserve_ms), session_id)
    local place = #telling
    telling[place + 1], telling[place + 2] = session_id, head.told
    telling[place + 3], telling[place + 4] = head.upto, tonumber(found[i + 1])
  end
  if #found > 2 * most_told then
    look_again_at(now)
  end
end

-- -- the clock -----------------------------------------------------------------------------------------------

-- Return how far the clock jumped ahead unseen (0: it did not, as far as anyone can tell), and note it.
--
-- Since any tick's last ask at most `elapsed_ms` went by, so what is beyond that is a jump. Since this tick's own
-- last ask exactly `elapsed_ms` went by, so what is beyond that is a jump, less what others dealt with meanwhile.
-- The first needs no memory, the second misses nothing between two far asks.
local function check_clock()
  local last = call('HMGET', META, 'asked_at', 'postponed')
  local asked_at, postponed = tonumber(last[1] or -1), tonumber(last[2] or 0)
  local jump = 0
  if elapsed_ms >= 0 and asked_at >= 0 then
    jump = now - asked_at - elapsed_ms
    if last_at >= 0 then
      jump = math.max(jump, now - last_at - elapsed_ms - (postponed - last_postponed))
    end
    jump = jump > SLACK_MS and jump or 0
  end
  if jump > 0 then
    local count, jumps = jumps_known()
    jumps[#jumps + 1] = {now - jump, jump}
    if #jumps > MOST_JUMPS then
      table.remove(jumps, 1)
    end
    postponed = postponed + jump
    marks[3], marks[4] = text(count + 1), cmsgpack.pack(jumps)
    call('HSET', META, 'jumps', marks[3], 'jumped', marks[4], 'postponed', text(postponed))
  end
  if jump > 0 or asked_at < 0 or now - asked_at >= MARK_MS then
    call('HSET', META, 'asked_at', text(now))
  end
  return jump, postponed
end

-- -- forgetting ----------------------------------------------------------------------------------------------

local function forget(key, drop)
  local found = call('ZRANGEBYSCORE', key, '-inf', text(now), 'LIMIT', '0', text(MOST_AT_ONCE))
  for _, session_id in ipairs(found) do
    drop(session_id)
    call('ZREM', key, session_id)
  end
  if #found == MOST_AT_ONCE then
    look_again_at(now)
  end
end

local function forget_claim(session_id)
  call('HDEL', BASE .. 'session:' .. session_id, 'l')
end

local function forget_removed(session_id)
  call('HDEL', BASE .. 'gone', session_id)
end

local function forget_pages(session_id)
  if call('EXISTS', BASE .. 'session:' .. session_id) == 0 then
    call('UNLINK', BASE .. 'pages:' .. session_id)
  end
end

-- -- leases and due entries ----------------------------------------------------------------------------------

-- Put back what a tick was handed and has not dealt with in its time.
local function take_back()
  local handed = BASE .. 'handed'
  local found = call('ZRANGEBYSCORE', handed, '-inf', text(now), 'WITHSCORES', 'LIMIT', '0', text(limit + 1))
  for i = 1, #found, 2 do
    local of_lease = not string.find(found[i], '\0', 1, true)
    call('ZADD', BASE .. (of_lease and 'leases' or 'dues'), found[i + 1], found[i])
    call('ZREM', handed, found[i])
  end
end

-- Return leases that ran out, at most so many, {when, session id, claim} each; some are postponed instead.
local function ran_out(most)
  local key = BASE .. 'leases'
  local count, jumps = jumps_known()
  local chosen, postponed = {}, 0
  local asked, found
  repeat
    asked = most - #chosen
    found = call('ZRANGEBYSCORE', key, '-inf', text(now), 'WITHSCORES', 'LIMIT', text(#chosen), text(asked))
    for i = 1, #found, 2 do
      local session_id = found[i]
      local of_session = BASE .. 'session:' .. session_id
      local lease = cmsgpack.unpack(call('HGET', of_session, 'l'))
      if settle_jumps(lease, count, jumps) then
        call('HSET', of_session, 'l', cmsgpack.pack(lease))
        call('ZADD', key, text(lease[5]), session_id)
      end
      if lease[5] > now then
        postponed = postponed + 1
      else
        chosen[#chosen + 1] = {tonumber(found[i + 1]), session_id, lease[1]}
      end
    end
  until #found < 2 * asked or #chosen >= most or postponed >= MOST_AT_ONCE
  return chosen
end

-- Return due entries, at most so many, {when, session id, nil, member} each.
local function due_entries(most)
  local found = call('ZRANGEBYSCORE', BASE .. 'dues', '-inf', text(now), 'WITHSCORES', 'LIMIT', '0', text(most))
  local chosen = {}
  for i = 1, #found, 2 do
    local session_id = string.match(found[i], '^[^%z]*')
    chosen[#chosen + 1] = {tonumber(found[i + 1]), session_id, nil, found[i]}
  end
  return chosen
end

local entries = {}

local function hand_out(one)
  local due_at, session_id, claim_id, member = one[1], one[2], one[3], one[4]
  local kind, at, subject = 'lease', '0', claim_id
  if member then
    kind, at, subject = string.match(member, '%z([^%z]*)%z([^%z]*)%z(.*)$', #session_id + 1)
    if at == '' then
      at = version_of_join(subject)
    end
  end
  call('ZREM', BASE .. (member and 'dues' or 'leases'), member or session_id)
  call('ZADD', BASE .. 'handed', text(now + reserve_ms), member or session_id)
  local place = #entries
  entries[place + 1], entries[place + 2], entries[place + 3] = session_id, kind, subject
  entries[place + 4], entries[place + 5] = tonumber(at), due_at
end

local function reserve()
  take_back()
  local found = due_entries(limit + 1)
  for _, one in ipairs(ran_out(limit + 1)) do
    found[#found + 1] = one
  end
  table.sort(found, function(a, b) return a[1] < b[1] end)
  for i = 1, math.min(#found, limit) do
    hand_out(found[i])
  end
  look_again_at(first_of(BASE .. 'dues') or next_at)
  look_again_at(first_of(BASE .. 'leases') or next_at)
end

-- -- doorbells -----------------------------------------------------------------------------------------------

local rings = {}

local function first_from(key, low)
  local first = call('ZRANGEBYSCORE', key, low, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')
  return first[2] and tonumber(first[2])
end

-- Return when to look at a role again (nil: when it gets a pack). One in which claims run stays known.
local function look_at_role(role)
  local key = BASE .. 'queue:' .. role
  local first = first_from(key, '-inf')
  if first and first < RESERVED then
    local rung_until, backoff = bell_of(role)
    if rung_until <= now then
      backoff = math.min(MOST_BACKOFF_MS, 2 * math.max(RUNG_MS, backoff))
      rung_until = now + backoff
      set_bell(role, rung_until, backoff)
      rings[#rings + 1] = role
    end
    return rung_until
  end
  local postponed = first_from(key, POSTPONED)
  local again_at = postponed and postponed - POSTPONED
  if first and first < POSTPONED then
    again_at = math.min(first - RESERVED, again_at or math.huge)
  end
  if not again_at and call('EXISTS', BASE .. 'busy:' .. role) == 1 then
    return now + MOST_NEXT_MS
  end
  return again_at
end

local function ring()
  local key = BASE .. 'roles'
  local most = MOST_AT_ONCE
  local found = call('ZRANGEBYSCORE', key, '-inf', text(now), 'LIMIT', '0', text(MOST_ROLES))
  for _, role in ipairs(found) do
    most = most - free_packs(role, now, most)
    local again_at = look_at_role(role)
    if again_at then
      call('ZADD', key, text(again_at), role)
    else
      call('ZREM', key, role)
      call('HDEL', BASE .. 'bells', role)
    end
  end
  look_again_at(first_of(key) or next_at)
end

reserve_telling()
local jump, postponed = 0, 0
if ticks == 1 then
  jump, postponed = check_clock()
  forget(BASE .. 'over', forget_claim)
  forget(BASE .. 'forget', forget_removed)
  forget(BASE .. 'unopened', forget_pages)
  reserve()
  ring()
end
return {now, math.max(now, next_at), jump, postponed, catalog_version(), entries, telling, rings}

-- What all scripts share; it is put between a script's first line and the rest of it.
--
-- KEYS[1] is the shard's `meta`, the other keys are derived from it and carry the same tag. ARGV[1] is the
-- time to go by (empty: the server's own), ARGV[2] how far the mark of the clock may lag (milliseconds),
-- ARGV[3] what the script is about, as
-- MessagePack (which knows no bytes here: those come after it). A script looks at all of that before it compares, and
-- compares before it writes, for what it wrote stays where it fails.
--
-- A session is a hash:
--   h  its head, see `head_of`          r  its row, which only the client reads
--   s  its state                        p<step>/<attempt>  the pack of that attempt
--   c<command id>  the digest of the command's content (16 bytes), and its reply
--   q  its place in the queue: role, score, step, attempt, solo, task, why it was handed back
--   l  its claim: claim id, role, task, standing, runs out, length, jumps of the clock that it knows
--   d  its due entries: {kind, subject, at, due at} each
--   t  its open tickets: {number, what its queue is found by, opened at, row, what its holder is found by (empty: nobody),
--      lane (empty: none), order} each; where format 2 wrote it, it ends with the row
--   #<name>  what is only counted

local call = redis.call
local BASE = string.sub(KEYS[1], 1, -5)
local META = KEYS[1]

-- A commit's ring counts for so long; the tick's get at most so far apart (milliseconds).
local RUNG_MS = 5000
local MOST_BACKOFF_MS = 60000
-- Whole numbers above this are not told apart.
local MOST_WHOLE = 9007199254740991

local function whole(value)
  return type(value) == 'number' and value == math.floor(value) and value >= -MOST_WHOLE and value <= MOST_WHOLE
end

local function natural(value)
  return whole(value) and value >= 0
end

local function words(...)
  for i = 1, select('#', ...) do
    if type((select(i, ...))) ~= 'string' then
      return false
    end
  end
  return true
end

local function text(number)
  return string.format('%.0f', number)
end

local function refuse(why)
  return redis.error_reply('PASSDOWN ' .. why)
end

-- Return the wall's time (milliseconds).
local function wall()
  if ARGV[1] ~= '' then
    return tonumber(ARGV[1])
  end
  local time = call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- What a look at the clock finds in `meta`: mark, offset, how many jumps there were, the last ones, whether anybody
-- ever asked for a task's limit.
local marks

-- Return the store's time, which never goes back behind its mark: after a step of the wall it simply goes on.
local function look_at_clock()
  marks = call('HMGET', META, 'mark', 'offset', 'jumps', 'jumped', 'limited')
  return math.max(wall() + (marks[2] or 0), tonumber(marks[1] or 0))
end

-- The same, and note it where the mark lags too far behind.
local function read_clock()
  marks = call('HMGET', META, 'mark', 'offset', 'jumps', 'jumped', 'limited')
  local mark, offset = tonumber(marks[1] or 0), tonumber(marks[2] or 0)
  local now = wall() + offset
  if now < mark then
    call('HSET', META, 'offset', text(offset + mark - now))
    return mark
  end
  if now - mark >= tonumber(ARGV[2]) then
    call('HSET', META, 'mark', text(now))
  end
  return now
end

local function catalog_version()
  return tonumber(call('HGET', BASE .. 'catalog', 'version') or 0)
end

-- A head: version, number, opened at, changed at, told up to, to be told up to, ended, what stands for the last event
-- (eight bytes), what it is found by (four times six bytes: status, plan, task, task's name), and the id of the
-- command that opened it.
local HEAD = '>I6I6I6I6I6I6B'

local function head_of(bytes)
  local head = {}
  head.version, head.n, head.opened_at, head.changed_at, head.told, head.upto, head.ended
    = struct.unpack(HEAD, bytes)
  head.tip = string.sub(bytes, 38, 45)
  head.filed = string.sub(bytes, 46, 69)
  head.opener = string.sub(bytes, 70)
  return head
end

local function version_of(bytes)
  return (struct.unpack('>I6', bytes))
end

local function head_bytes(head)
  return struct.pack(HEAD, head.version, head.n, head.opened_at, head.changed_at, head.told, head.upto, head.ended)
    .. head.tip .. head.filed .. head.opener
end

-- Return the event of a session's log that is needed to read a text that is kept of it (see packed.py), or false.
local function event_for(kept, session_id)
  local how = string.byte(kept)
  if how == 2 then
    return call('LINDEX', BASE .. 'log:' .. session_id, '0')
  elseif how == 3 then
    return call('LINDEX', BASE .. 'log:' .. session_id, (struct.unpack('>I6', kept, 2)) - 1)
  end
  return false
end

-- How a session is called in the queues: of one score the one that was opened first comes first.
local function handle_of(n, session_id)
  return string.format('%012.0f', n) .. session_id
end

-- Where a session stands in the index under one of the four things that it is found by; nil where it has no such.
local function place_of(head, which, session_id)
  if string.sub(head.filed, which * 6 - 5, which * 6) == '\0\0\0\0\0\0' then
    return nil
  end
  return string.sub(head.filed, which * 6 - 5, which * 6)
    .. struct.pack('>I6I5', head.opened_at, head.n) .. session_id
end

-- What a branch is found by: nothing, neither while it runs nor when it ended.
local UNFILED = string.rep('\0', 24)

local function same_filed(one, other, which)
  return string.sub(one.filed, which * 6 - 5, which * 6) == string.sub(other.filed, which * 6 - 5, which * 6)
end

-- Return whether a session ended and nothing of it is open, by its head and what stands in `q`, `l`, `d` and `t`.
local function is_over(head, queue, lease, dues, tickets)
  local claimed = lease and cmsgpack.unpack(lease)[4] ~= 'told'
  return head.ended == 1 and head.told >= head.upto and not (queue or claimed or dues or tickets)
end

local function due_member(session_id, due)
  return session_id .. '\0' .. due[1] .. '\0' .. text(due[3]) .. '\0' .. due[2]
end

-- What a tick was handed waits in `handed` until it is dealt with, or its reservation ends.
local function drop_due(session_id, due)
  local member = due_member(session_id, due)
  if call('ZREM', BASE .. 'dues', member) == 0 then
    call('ZREM', BASE .. 'handed', member)
  end
end

local function drop_lease(session_id)
  if call('ZREM', BASE .. 'leases', session_id) == 0 then
    call('ZREM', BASE .. 'handed', session_id)
  end
end

-- -- what runs at once, by task ------------------------------------------------------------------------------

-- Most stores know no limits of tasks: this is written from the first request on that names one (`count_tasks` in
-- take.lua). A reservation stands with when it runs out, a claim at infinity.
local function occupy(kind, session_id, task, score)
  if marks[5] then
    call('ZADD', BASE .. 'busy-task:' .. task, score, kind .. session_id)
  end
end

local function vacate(kind, session_id, task)
  if marks[5] then
    call('ZREM', BASE .. 'busy-task:' .. task, kind .. session_id)
  end
end

-- -- the queue -----------------------------------------------------------------------------------------------

-- A pack stands in its role's queue once. Its score is lower than this while it may be taken; from here on it is
-- reserved until the rest of its score, and from there on postponed until then (milliseconds).
local RESERVED = 1e14
local POSTPONED = 2e14

-- Put packs back that were reserved or postponed till now, at most so many; return how many that were.
local function free_packs(role, now, most)
  local key, freed = BASE .. 'queue:' .. role, 0
  for _, from in ipairs({RESERVED, POSTPONED}) do
    local handles = call('ZRANGEBYSCORE', key, from, from + now, 'LIMIT', '0', most - freed)
    for _, handle in ipairs(handles) do
      local session_id = string.sub(handle, 13)
      local queue = cmsgpack.unpack(call('HGET', BASE .. 'session:' .. session_id, 'q'))
      vacate('R', session_id, queue[6])
      call('ZADD', key, queue[2], handle)
    end
    freed = freed + #handles
  end
  return freed
end

-- Return whether the role has a pack that may be taken now, limits aside.
local function has_ready(role, now)
  local key = BASE .. 'queue:' .. role
  return #call('ZRANGEBYSCORE', key, '-inf', RESERVED + now, 'LIMIT', '0', '1') > 0
    or #call('ZRANGEBYSCORE', key, POSTPONED, POSTPONED + now, 'LIMIT', '0', '1') > 0
end

-- -- doorbells -----------------------------------------------------------------------------------------------

-- Return until when a role counts as rung, and how far apart the tick's rings are by now.
local function bell_of(role)
  local bell = call('HGET', BASE .. 'bells', role)
  if not bell then
    return 0, 0
  end
  local rung_until, backoff = string.match(bell, '^(%d+) (%d+)$')
  return tonumber(rung_until), tonumber(backoff)
end

local function set_bell(role, rung_until, backoff)
  call('HSET', BASE .. 'bells', role, text(rung_until) .. ' ' .. text(backoff))
end

-- -- the clock's jumps ---------------------------------------------------------------------------------------

-- Return the jumps that leases are postponed by: how many there ever were, and the last ones as {before, amount}.
local function jumps_known()
  if not marks[3] then
    return 0, {}
  end
  return tonumber(marks[3]), cmsgpack.unpack(marks[4])
end

-- Postpone a lease by the jumps that came after it was set; return whether there were any it did not know.
local function settle_jumps(lease, count, jumps)
  if lease[7] == count then
    return false
  end
  for number = math.max(lease[7], count - #jumps) + 1, count do
    local jump = jumps[#jumps - (count - number)]
    if lease[5] - lease[6] <= jump[1] then
      lease[5] = lease[5] + jump[2]
    end
  end
  lease[7] = count
  return true
end

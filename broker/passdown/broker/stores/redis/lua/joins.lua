-- What scripts share that look at joins; it is put after common.lua.
--
-- A join is a hash, and `joins` of its session names it:
--   h  its head: how many rows were written and what else changed it, how many rows replaced another, and the version it was closed on and
--      one (0: it is open), six bytes each; then as MessagePack how many rows it has by outcome, and its wakes {so many
--      rows, outcome …} each
--   <place>  the row of that branch: the version that it made (6 bytes), what stands for its `about` (16), its outcome
--      behind its length (1), and what only the client reads
-- One that must be looked at stands among the due entries, until it was looked at; see `look_of`. All that is done to a
-- join takes as long as it has outcomes and wakes, however many branches there are.

local JOIN = '>I6I6I6'
-- So long a join that was woken is left to whoever woke it (milliseconds), as base.py says.
local WOKEN_MS = 250
-- Rows of branches that have not ended, as joining.py says: they never stay.
local UNENDED = {open = true, waiting = true}

local function key_of_join(join_id)
  return BASE .. 'join:' .. join_id
end

local function session_of(join_id)
  return (string.match(join_id, '^[^./]*'))
end

-- The member of `dues`, or of `handed`, for a join: of no version, which is looked up when it is handed out.
local function look_of(join_id)
  return session_of(join_id) .. '\0join\0\0' .. join_id
end

local function drop_look(join_id)
  if call('ZREM', BASE .. 'dues', look_of(join_id)) == 0 then
    call('ZREM', BASE .. 'handed', look_of(join_id))
  end
end

-- Return how many rows of a join were written so far (0: there is no such join).
local function version_of_join(join_id)
  local kept = call('HGET', key_of_join(join_id), 'h')
  return kept and version_of(kept) or 0
end

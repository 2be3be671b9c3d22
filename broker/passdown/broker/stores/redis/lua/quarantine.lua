#!lua
-- Keep what was refused, under a number that was never given before; the oldest go. → its number
--
-- ARGV[4]: its body.

local what = cmsgpack.unpack(ARGV[3])
local source, reason, most, body = what[1], what[2], what[3], ARGV[4]
if #what ~= 3 or not words(source, reason, body) or not natural(most) then
  return refuse('a message of another form')
end

local now = read_clock()
local number = call('HINCRBY', META, 'quarantined', 1)
-- What was dropped counts as kept: the oldest go by their number, not by how many there are.
call('XADD', BASE .. 'quarantine', 'MINID', '=', text(math.max(0, number - most + 1)) .. '-0', text(number) .. '-0',
  'at', text(now), 'source', source, 'reason', reason, 'body', body)
return number

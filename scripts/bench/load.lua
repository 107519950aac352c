-- Requests for wrk: METHOD EXPECTED_STATUS PATHS_FILE BODIES_FILE|- HEADERS_FILE|- FIRST
-- A line of each file makes a request; they are taken in turn from the FIRST on, those of the shorter files
-- again and again. In a body the placeholder becomes the request's number.

local PLACEHOLDER = "@@@@@@@@@@@@"
local threads = {}
local expected, number
local befores, afters = {}, {} -- what a request is before and after its number; false for one without

unexpected = 0 -- read by done(), in another state: hence global

function setup(thread)
   table.insert(threads, thread)
end

local function read_lines(file)
   local list = {}
   if file ~= "-" then
      for line in io.lines(file) do
         list[#list + 1] = line
      end
   end
   return list
end

local function in_turn(list, index)
   return list[(index - 1) % #list + 1] -- nil of an empty list
end

local function write(method, path, header, body)
   local text = method .. " " .. path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port .. "\r\n"
   if header then
      text = text .. header .. "\r\n"
   end
   if body then
      text = text .. "Content-Type: application/json\r\nContent-Length: " .. #body .. "\r\n"
   elseif method ~= "GET" then
      text = text .. "Content-Length: 0\r\n"
   end
   return text .. "\r\n" .. (body or "")
end

function init(arguments)
   expected, number = tonumber(arguments[2]), tonumber(arguments[6])
   local paths, bodies = read_lines(arguments[3]), read_lines(arguments[4])
   local headers = read_lines(arguments[5])
   for index = 1, math.max(#paths, #bodies, #headers) do
      local body = in_turn(bodies, index)
      local text = write(arguments[1], in_turn(paths, index), in_turn(headers, index), body)
      local from, to = text:find(PLACEHOLDER, 1, true)
      befores[index] = from and text:sub(1, from - 1) or text
      afters[index] = from and text:sub(to + 1) or false
   end
end

function request()
   local index = number % #befores + 1
   local before, after = befores[index], afters[index]
   number = number + 1
   if after then
      return before .. string.format("%012x", number) .. after
   end
   return before
end

function response(status)
   if status ~= expected then
      unexpected = unexpected + 1
   end
end

function done(summary, latency)
   local wrong = 0
   for _, thread in ipairs(threads) do
      wrong = wrong + thread:get("unexpected")
   end
   local errors = summary.errors
   print(string.format(
      '{"requests": %d, "seconds": %.6f, "p50_ms": %.4f, "p99_ms": %.4f, "unexpected": %d, "broken": %d}',
      summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
      wrong, errors.connect + errors.read + errors.write + errors.timeout))
end

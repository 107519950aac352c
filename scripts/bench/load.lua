-- Requests for wrk: METHOD EXPECTED_STATUS PATHS_FILE BODY_FILE|- FIRST
-- The paths are asked in turn from the FIRST on; in the body the placeholder becomes the request's number.

local PLACEHOLDER = "@@@@@@@@@@@@"
local threads = {}
local expected, number, paths, before, after

unexpected = 0 -- read by done(), in another state: hence global

function setup(thread)
   table.insert(threads, thread)
end

local function read_body(file)
   local handle = assert(io.open(file, "rb"))
   local text = handle:read("*a")
   handle:close()
   local from, to = text:find(PLACEHOLDER, 1, true)
   return text:sub(1, from - 1), text:sub(to + 1)
end

function init(arguments)
   local method, host = arguments[1], wrk.host .. ":" .. wrk.port
   expected, number = tonumber(arguments[2]), tonumber(arguments[5])
   local head = " HTTP/1.1\r\nHost: " .. host .. "\r\n"
   before = ""
   if arguments[4] ~= "-" then
      before, after = read_body(arguments[4])
      local length = #before + #PLACEHOLDER + #after
      head = head .. "Content-Type: application/json\r\nContent-Length: " .. length .. "\r\n"
   elseif method ~= "GET" then
      head = head .. "Content-Length: 0\r\n"
   end
   paths = {}
   for line in io.lines(arguments[3]) do
      paths[#paths + 1] = method .. " " .. line .. head .. "\r\n" .. before
   end
end

function request()
   local text = paths[number % #paths + 1]
   number = number + 1
   if after then
      return text .. string.format("%012x", number) .. after
   end
   return text
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

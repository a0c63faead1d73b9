-- In which steps do a flow entry's counters grow? Asked for every 10 ms while 2,000 packets a second pass.
name = "counter_steps"
about = "how a flow entry's counters grow while packets pass"

local last, steps, asked = 0, 0, 0

function traffic(t)
    return { rate = 2000, probes = 6000 }
end

function filter(t)
    return { messages = { "stats", "error" } }
end

function init(t)
    local input, output = t:ports()
    t:flow("add", string.format("priority=1000,in_port=%d actions=output:%d", input, output))
    t:barrier()
end

function start(t)
    t:after(0.01)
end

function timer(t)
    t:stats("flow")
    asked = asked + 1
    if t:now() < 3.5 then t:after(0.01) else t:stop() end
end

function message(t, m)
    if m.type == "error" then return t:finding("refused", m.text) end
    for _, entry in ipairs(m.entries) do
        if entry.priority == 1000 then
            t:point("packets counted over time (s)", m.at, entry.packets)
            if entry.packets > last then
                steps, last = steps + 1, entry.packets
            elseif entry.packets < last then
                t:finding("counter_fell", "from " .. last .. " to " .. entry.packets)
            end
        end
    end
end

function destroy(t)
    t:figure("asked", asked)
    t:figure("steps", steps)
    t:figure("counted", last)
end

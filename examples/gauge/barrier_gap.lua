-- How long after its barrier's reply does a rule forward, and how does that spread over many rules?
name = "barrier_gap"
about = "from a barrier's reply to the first packet of the rule before it"

local rules, next_rule = 20, 0
local replied, first, waiting = {}, {}, {}

function traffic(t)
    return { rate = 5000, probes = 20000, flows = rules }
end

function filter(t)
    return { capture = true, messages = { "barrier_reply", "error" } }
end

local function add(t)
    local input, output = t:ports()
    t:flow("add", string.format("priority=1000,in_port=%d,ip,nw_dst=%s actions=output:%d",
        input, t:address(next_rule), output))
    waiting[t:barrier()] = next_rule
    next_rule = next_rule + 1
end

function start(t)
    t:after(0.1, 1)
end

-- A rule every 50 ms.
function timer(t, id)
    if next_rule < rules then
        add(t)
        t:after(0.05, 1)
    else
        t:after(0.5, 2)
    end
    if id == 2 then t:stop() end
end

function message(t, m)
    if m.type == "error" then
        t:finding("refused", m.text)
        return t:stop()
    end
    local rule = waiting[m.xid]
    if rule then replied[rule] = m.at end
end

function capture(t, p)
    if not first[p.flow] then first[p.flow] = p end
end

function destroy(t)
    local early = 0
    for rule = 0, rules - 1 do
        local p = first[rule]
        if p and replied[rule] then
            t:latency("after_reply", math.max(0, p.due - replied[rule]))
            if p.due < replied[rule] then early = early + 1 end
        end
    end
    t:figure("rules", next_rule)
    t:figure("forwarded_before_reply", early)
end

-- The switch as a learning controller sees it: a packet of each new flow comes to us, we add the rule and send the
-- packet on. How long does a flow's first packet take that way, and how many more come to us meanwhile?
name = "learning_switch"
about = "the first packet of a flow, by way of the controller"

local flows = 50
local seen, punted, forwarded = {}, 0, {}

function traffic(t)
    return { rate = 1000, probes = 3000, flows = flows }
end

function filter(t)
    return { capture = true, messages = { "packet_in", "error" } }
end

function init(t)
    local input = t:ports()
    t:flow("add", string.format("priority=1,in_port=%d actions=CONTROLLER:65535", input))
    t:barrier()
end

function message(t, m)
    if m.type == "error" then return t:finding("refused", m.text) end
    punted = punted + 1
    if not m.seq then return end
    local flow = m.seq % flows
    t:latency("to_controller", m.at - m.due)
    if seen[flow] then return end
    seen[flow] = m.due
    local input, output = t:ports()
    t:flow("add", string.format("priority=1000,in_port=%d,ip,nw_dst=%s actions=output:%d",
        input, t:address(flow), output))
end

function capture(t, p)
    if forwarded[p.flow] then return end
    forwarded[p.flow] = true
    if seen[p.flow] then t:latency("until_forwarded", p.at - seen[p.flow]) end
end

function destroy(t)
    local learnt = 0
    for _ in pairs(forwarded) do learnt = learnt + 1 end
    t:figure("punted", punted)
    t:figure("flows_learnt", learnt)
    if learnt < flows then t:finding("flows_lost", (flows - learnt) .. " flows never came out") end
end

//! Scripts of any bytes: a fuzz target's body.

use super::ask::{captured_table, message_table, word};
use super::limits::{NAME_LEN_MAX, TEXT_LEN_MAX, WAITING_MAX};
use super::machine::{Budget, Machine};
use super::script::Script;
use crate::control::Received;
use crate::probe::{self, Probe};
use crate::traffic::{Came, Plan};
use mlua::Value;
use openflow::{Message, MultipartReplyBody, Version, Xid};
use std::time::Duration;

/// A script of any bytes: its text, if it begins with a comment or an empty line, else calls of `t` and their arguments. All
/// its functions are called with what a measurement would give them. A fuzz target's body.
#[doc(hidden)]
pub fn fuzz(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let text = match first {
        b'-' | b'\n' => String::from_utf8_lossy(data).into_owned(),
        _ => calls(rest),
    };
    let text = format!("name = 'f' about = 'f'\n{text}");
    let budget = Budget { memory: 8 << 20, patience: Duration::from_secs(5), steps: 10 };
    let Ok(machine) = Machine::within(budget, "f", &text) else { return };
    let script = Script { name: "f".into(), about: "f".into(), path: "f".into(), text };
    {
        let mut shared = machine.t.0.borrow_mut();
        shared.version = Some(Version::ALL[usize::from(*first) / 2 % Version::ALL.len()]);
        (shared.input, shared.output) = (1, 2);
    }
    let base = Plan { transmit: true, ..crate::calibrate::plan(&crate::Settings::default()) };
    let _ = machine.call("init", Value::Nil);
    let plan = script.plan(base, &machine);
    if let Ok(plan) = &plan {
        assert!(plan.probes >= 1 && plan.flows_in_all() >= 1 && plan.rate_pps >= 1.0);
    }
    let _ = machine.call("filter", Value::Nil).and_then(|value| script.filter(&value));
    let _ = machine.call("start", Value::Nil);
    let _ = machine.call("timer", Value::Integer(i64::from(*first)));
    let probe = Probe { stream: 1, seq: 7, due: 9 };
    for message in [
        Message::BarrierReply,
        Message::EchoReply(rest.to_vec()),
        Message::MultipartReply(openflow::MultipartReply {
            more: false,
            body: MultipartReplyBody::Table(vec![Default::default()]),
        }),
    ] {
        let received = Received { at: 5, xid: Xid(16), message };
        let word = word(&received.message);
        if let Ok(table) = message_table(&machine, word, &received) {
            let _ = machine.call("message", Value::Table(table));
        }
    }
    if let Ok(plan) = &plan {
        let bytes = probe::frame(60, 0, probe).into();
        let came = Came { probe: Some((7, 9)), at: 11, returned: false, bytes };
        if let Ok(table) = captured_table(&machine, plan, &came) {
            let _ = machine.call("capture", table);
        }
    }
    let _ = machine.call("destroy", Value::Nil);
    let shared = machine.t.0.borrow();
    assert!(shared.figures.iter().all(|(n, v)| n.len() <= NAME_LEN_MAX && v.is_finite()));
    assert!(shared.outgoing.len() <= WAITING_MAX && shared.timers.len() <= WAITING_MAX);
    assert!(shared.notes.iter().all(|note| note.len() <= TEXT_LEN_MAX));
    for message in &shared.outgoing {
        assert!(openflow::codec::encode(shared.version(), Xid(1), message).is_ok());
    }
}

/// A script that calls what the bytes choose.
fn calls(bytes: &[u8]) -> String {
    const FUNCTIONS: [&str; 8] =
        ["init", "traffic", "filter", "start", "timer", "message", "capture", "destroy"];
    const METHODS: [&str; 21] = [
        "now",
        "version",
        "ports",
        "address",
        "flow",
        "group",
        "meter",
        "barrier",
        "echo",
        "stats",
        "packet_out",
        "after",
        "scrape",
        "snmp",
        "limit",
        "stop",
        "figure",
        "latency",
        "point",
        "finding",
        "note",
    ];
    const VALUES: [&str; 24] = [
        "nil",
        "0",
        "-1",
        "1.5",
        "0/0",
        "1/0",
        "math.mininteger",
        "4294967296",
        "''",
        "'add'",
        "'flow'",
        "'priority=1,ip actions=output:2'",
        "'group_id=1,type=all,bucket=output:1'",
        "('x'):rep(70000)",
        "'\\xff\\0'",
        "{}",
        "{1, 2, a = {}}",
        "{rate = 0/0, probes = -1}",
        "{capture = 'udp', messages = {'stats'}}",
        "{description = 'udp_dst=1-9,len=64-70'}",
        "t",
        "function() return t:barrier() end",
        "setmetatable({}, {__index = function(_, k) return k end})",
        "coroutine.wrap(function() t:note('y') end)",
    ];
    let mut text = String::new();
    for part in bytes.chunks(12).take(40) {
        let pick = |i: usize, of: usize| usize::from(part.get(i).copied().unwrap_or(0)) % of;
        let name = FUNCTIONS[pick(0, FUNCTIONS.len())];
        let arguments: Vec<&str> =
            (0..pick(2, 4)).map(|i| VALUES[pick(3 + i, VALUES.len())]).collect();
        let call = format!("t:{}({})", METHODS[pick(1, METHODS.len())], arguments.join(", "));
        let call = match pick(7, 4) {
            0 => call,
            1 => format!("pcall(function() {call} end)"),
            2 => format!("for i = 1, 10100 do {call} end"),
            _ => format!("while true do pcall(function() {call} end) end"),
        };
        let gives = VALUES[pick(8, VALUES.len())];
        text.push_str(&format!(
            "do local before = {name} function {name}(t, v) if before then before(t, v) end {call} return {gives} end end\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use port::prng::Prng;

    #[test]
    fn any_script_ends() {
        let mut prng = Prng::new(3);
        for round in 0..40 {
            let mut bytes: Vec<u8> =
                (0..1 + prng.below(120)).map(|_| prng.next_u64() as u8).collect();
            bytes[0] = round as u8;
            fuzz(&bytes);
        }
        for text in [
            "while true do pcall(function() while true do end end) end",
            "local f = coroutine.wrap(function() while true do end end) f()",
            "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
            "function init(t) while true do pcall(t.barrier, t) end end",
            "setmetatable({}, {__gc = function() while true do end end})",
            "table.move({}, 1, math.maxinteger - 1, 2)",
            "load('\x1bLua')()",
            "\x1bLua",
            "function message(t, m) for k, v in pairs(m) do t:note(tostring(v)) end end",
        ] {
            fuzz(format!("\n{text}").as_bytes());
        }
    }

    #[test]
    fn what_a_script_has_us_keep_is_bounded() {
        let error = |text: &str| {
            let text = format!("function init(t) {text} end");
            let machine = Machine::new("f", &text).unwrap();
            machine.call("init", Value::Nil).unwrap_err().to_string()
        };
        assert!(error("while true do t:barrier() end").contains("more than 10000 messages wait"));
        assert!(error("for i = 1, 1e9 do t:after(1, i) end").contains("more than 10000 timers"));
        assert!(error("while true do t:note('') end").contains("more than 10000 notes"));
        assert!(error("t:figure('a', 0/0)").contains("no number that a report can hold"));
        assert!(error("t:point('a', 1, 1/0)").contains("no number that a report can hold"));
        assert!(error("t:figure(('a'):rep(300), 1)").contains("a name has 300 bytes"));
        assert!(error("t:echo(('a'):rep(70000))").contains("65535 is the most"));
        assert!(error("setmetatable({}, {__gc = print})").contains("finalizers"));
        assert!(error("assert(load(string.dump(function() end)))").contains("binary"));
    }
}

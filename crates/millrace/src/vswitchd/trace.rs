//! `ofproto/trace` in the form of Open vSwitch: each entry with its table, priority, cookie and actions; then what becomes
//! of the packet.
//!
//! Taken from the trace of the running program: a lookup in a flow table is a line of its own, and what the program does
//! beside flow tables is left out (`millrace trace` shows it). There is no flow cache, so no megaflow.

use super::flows;
use control::bridges::Bridge;
use interp::trace::{Event, Kind};
use ir::DropReason;
use of_pipeline::flow_table::FlowKey;
use std::fmt::Write as _;
use switch::trace::Traced;

/// Spaces that an action has more than its table.
const STEP: usize = 4;

/// What is shown of a lookup.
struct Lookup<'a> {
    table: u8,
    /// The entry, by its number.
    hit: Option<u32>,
    /// What was done meanwhile.
    within: &'a [Event],
}

/// The number of a flow table by its name, `t` and a number.
fn flow_table(text: &str) -> Option<u8> {
    let name = text.split(':').next()?;
    name.strip_prefix('t')?.parse().ok()
}

/// Lookups in flow tables, outermost ones only, in the order in which they happened.
fn lookups<'a>(
    of_table: &dyn Fn(ir::TableId) -> Option<u8>,
    events: &'a [Event],
    out: &mut Vec<Lookup<'a>>,
) {
    for event in events {
        let table = match (event.kind, event.hit) {
            (Kind::Table, Some((table, _))) => of_table(table),
            (Kind::Table, None) => flow_table(&event.text),
            _ => None,
        };
        match table {
            Some(table) => {
                let hit = event.hit.map(|(_, entry)| entry.0);
                out.push(Lookup { table, hit, within: &event.children });
            }
            None => lookups(of_table, &event.children, out),
        }
    }
}

/// What NORMAL did, if a packet came to it.
fn normal(events: &[Event]) -> Option<&'static str> {
    let mut found = None;
    for event in events {
        let name = event.text.split(':').next().unwrap_or_default();
        if event.kind == Kind::Table && name == "normal_dst" {
            found = Some(match event.hit {
                Some(_) => "forwarding to learned port",
                None => "no learned MAC for destination, flooding",
            });
        }
        if event.kind == Kind::Drop && event.text.contains(DropReason::BondMember.word()) {
            found = Some("bonding refused admissibility, dropping");
        }
        found = found.or_else(|| normal(&event.children));
    }
    found
}

struct Writer<'a> {
    bridge: &'a Bridge,
    /// All steps, for what NORMAL did behind the tables.
    all: &'a [Event],
    out: String,
}

impl Writer<'_> {
    fn line(&mut self, indent: usize, text: &str) {
        // Writing to a string does not fail.
        let _ = writeln!(self.out, "{:indent$}{text}", "");
    }

    fn tables(&mut self, found: Vec<Lookup<'_>>, indent: usize) {
        let Some(openflow) = self.bridge.openflow() else { return };
        for Lookup { table, hit, within } in found {
            let shown = hit.and_then(|id| {
                let agent = openflow.agent();
                let flow = agent.flows().get(FlowKey { table, id })?;
                let mut head = flows::matches(flow);
                if !head.is_empty() {
                    head += ", ";
                }
                let _ = write!(head, "priority {}", flow.priority);
                if flow.cookie != 0 {
                    let _ = write!(head, ", cookie {:#x}", flow.cookie);
                }
                Some((head, flows::actions(table, flow)))
            });
            let (head, actions) =
                shown.unwrap_or_else(|| ("No match.".to_owned(), "drop".to_owned()));
            self.line(indent, &format!("{table:2}. {head}"));
            let mut nested = Vec::new();
            lookups(&self.of_table(), within, &mut nested);
            let mut nested = nested.into_iter();
            let actions = flows::split(&actions);
            let last = actions.len().saturating_sub(1);
            for (at, action) in actions.into_iter().enumerate() {
                self.line(indent + STEP, action);
                if action == "NORMAL"
                    && let Some(did) = normal(within).or_else(|| normal(self.all))
                {
                    self.line(indent + STEP, &format!(" -> {did}"));
                }
                if action.starts_with("resubmit")
                    && let Some(one) = nested.next()
                {
                    // As the last action it goes on where this one is.
                    let deeper = if at == last { indent } else { indent + 2 * STEP };
                    self.tables(vec![one], deeper);
                }
            }
            self.tables(nested.collect(), indent + 2 * STEP);
        }
    }

    fn of_table(&self) -> impl Fn(ir::TableId) -> Option<u8> + use<> {
        let layout = self.bridge.openflow().map(|openflow| openflow.agent().layout());
        move |table| layout.as_ref()?.flow_table(table)
    }
}

/// A frame's VLAN tags, outermost first: type, and control information.
fn tags(frame: &[u8]) -> Vec<(u16, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let (mut at, mut all) = (12, Vec::new());
    while let (Some(kind @ (0x8100 | 0x88a8)), Some(control)) = (word(at), word(at + 2)) {
        all.push((kind, control));
        at += 4;
    }
    all
}

/// A frame without its tags.
fn untagged(frame: &[u8]) -> Vec<u8> {
    let skip = 12 + 4 * tags(frame).len();
    [frame.get(..12).unwrap_or(frame), frame.get(skip..).unwrap_or_default()].concat()
}

/// What a datapath of Open vSwitch would be told: outputs, and what changes between them.
fn datapath_actions(bytes: &[u8], traced: &Traced, number: impl Fn(u32) -> u32) -> String {
    let (mut has, mut body) = (tags(bytes), untagged(bytes));
    let (mut words, mut priority) = (Vec::new(), 0);
    let sent = traced.outputs.iter().zip(&traced.queues).zip(&traced.cuts);
    for (((port, frame), queue), cut) in sent {
        if std::mem::replace(&mut priority, *queue) != *queue {
            let shown = if *queue == 0 { "0".to_owned() } else { format!("{queue:#x}") };
            words.push(format!("set(skb_priority({shown}))"));
        }
        let (wanted, new) = (tags(frame), untagged(frame));
        let same = has.iter().rev().zip(wanted.iter().rev()).take_while(|(a, b)| a == b).count();
        words.extend(std::iter::repeat_n("pop_vlan".to_owned(), has.len() - same));
        for (kind, control) in wanted[..wanted.len() - same].iter().rev() {
            let tpid = if *kind == 0x8100 { String::new() } else { format!("tpid={kind:#x},") };
            let (vid, pcp) = (control & 0xfff, control >> 13);
            words.push(format!("push_vlan({tpid}vid={vid},pcp={pcp})"));
        }
        // What was cut off is as it was before.
        let cut_short = cut.is_some_and(|most| frame.len() == most as usize);
        let same = new == body || cut_short && body.starts_with(&new);
        if !same {
            words.push(format!("set({})", wire::summary(frame)));
        }
        words.extend(cut.map(|most| format!("trunc({most})")));
        words.push(number(*port).to_string());
        has = wanted;
        if !same {
            body = new;
        }
    }
    for (reason, _) in &traced.punts {
        words.push(format!("userspace(controller(reason={}))", reason.word()));
    }
    if words.is_empty() { "drop".to_owned() } else { words.join(",") }
}

/// The answer.
pub(super) fn show(
    bridge: &Bridge,
    (flow, in_port, bytes): (&str, u32, &[u8]),
    number: impl Fn(u32) -> u32,
) -> String {
    let mut traced = bridge.switch().trace(in_port, bytes);
    let title = format!("bridge(\"{}\")", bridge.name());
    let out = format!("Flow: {flow}\n\n{title}\n{}\n", "-".repeat(title.len()));
    let mut writer = Writer { bridge, all: &traced.trace.events, out };
    let mut found = Vec::new();
    lookups(&writer.of_table(), &traced.trace.events, &mut found);
    writer.tables(found, 0);
    if let ir::Verdict::Drop(reason) = traced.verdict {
        writer.line(STEP, &format!(" >> dropped: {}", reason.word()));
    }
    for service in &traced.not_called {
        writer.line(
            STEP,
            &format!(" >> service {service} is not called, as it would remember this packet"),
        );
    }
    // What a port does not send, it drops behind the pipeline.
    let sends = |port: u32| bridge.switch().port(port).is_none_or(|view| !view.config.no_forward);
    for (port, _) in traced.outputs.iter().filter(|(port, _)| !sends(*port)) {
        let word = ir::DropReason::PortNoForward.word();
        writer.line(STEP, &format!(" >> dropped at port {}: {word}", number(*port)));
    }
    let sent = std::mem::take(&mut traced.outputs).into_iter().zip(traced.queues);
    let sent = sent.zip(traced.cuts).filter(|(((port, _), _), _)| sends(*port));
    ((traced.outputs, traced.queues), traced.cuts) = sent.unzip();
    let last = traced.outputs.last().filter(|(_, frame)| frame.as_slice() != bytes);
    let finally = last.map_or("unchanged".to_owned(), |(_, frame)| wire::summary(frame));
    let actions = datapath_actions(bytes, &traced, number);
    writer.out
        + &format!(
            "\nFinal flow: {finally}\nMegaflow: none (there is no flow cache)\nDatapath actions: {actions}\n"
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{PuntReason, Verdict};

    fn frame(tags: &[(u16, u16)], last: u8) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for (kind, control) in tags {
            bytes.extend(kind.to_be_bytes());
            bytes.extend(control.to_be_bytes());
        }
        bytes.extend([0x88, 0xb5]);
        bytes.extend([last; 46]);
        bytes
    }

    fn actions(outputs: Vec<(u32, Vec<u8>)>, punts: Vec<(PuntReason, Vec<u8>)>) -> String {
        let queues = vec![0; outputs.len()];
        by_queues(outputs, queues, punts)
    }

    fn by_queues(
        outputs: Vec<(u32, Vec<u8>)>,
        queues: Vec<u32>,
        punts: Vec<(PuntReason, Vec<u8>)>,
    ) -> String {
        let cuts = vec![None; outputs.len()];
        told(outputs, queues, cuts, punts)
    }

    fn told(
        outputs: Vec<(u32, Vec<u8>)>,
        queues: Vec<u32>,
        cuts: Vec<Option<u32>>,
        punts: Vec<(PuntReason, Vec<u8>)>,
    ) -> String {
        let traced = Traced {
            version: 1,
            verdict: Verdict::Forward,
            trace: Default::default(),
            outputs,
            queues,
            cuts,
            punts,
            not_called: Vec::new(),
        };
        datapath_actions(&frame(&[(0x8100, 10)], 7), &traced, |port| port)
    }

    #[test]
    fn outputs_are_told_with_what_changes_between_them() {
        let (tagged, plain) = (frame(&[(0x8100, 10)], 7), frame(&[], 7));
        let other = frame(&[(0x88a8, 0xa014), (0x8100, 10)], 7);
        assert_eq!(actions(vec![(1, tagged.clone()), (2, plain)], Vec::new()), "1,pop_vlan,2");
        assert_eq!(
            actions(vec![(1, other), (3, tagged.clone())], Vec::new()),
            "push_vlan(tpid=0x88a8,vid=20,pcp=5),1,pop_vlan,3"
        );
        assert!(actions(vec![(1, frame(&[(0x8100, 10)], 8))], Vec::new()).starts_with("set(eth "));
        assert_eq!(actions(Vec::new(), Vec::new()), "drop");
        let punts = vec![(PuntReason::TableMiss, tagged)];
        assert_eq!(actions(Vec::new(), punts), "userspace(controller(reason=table_miss))");
    }

    #[test]
    fn a_queue_is_told_where_it_changes() {
        let to =
            |ports: &[u32]| ports.iter().map(|port| (*port, frame(&[(0x8100, 10)], 7))).collect();
        let told = by_queues(to(&[1, 2, 3, 4, 5]), vec![1, 1, 0x12, 0, 0], Vec::new());
        let wanted =
            "set(skb_priority(0x1)),1,2,set(skb_priority(0x12)),3,set(skb_priority(0)),4,5";
        assert_eq!(told, wanted);
    }

    #[test]
    fn what_is_cut_is_told_before_its_output_alone() {
        let tagged = frame(&[(0x8100, 10)], 7);
        let plain = frame(&[], 7);
        let outputs = vec![
            (1, tagged[..40].to_vec()),
            (2, tagged.clone()),
            (3, plain[..20].to_vec()),
            (4, plain),
            (5, tagged),
        ];
        let cuts = vec![Some(40), None, Some(20), None, Some(100)];
        let wanted = "trunc(40),1,2,pop_vlan,trunc(20),3,4,push_vlan(vid=10,pcp=0),trunc(100),5";
        assert_eq!(told(outputs, vec![0; 5], cuts, Vec::new()), wanted);
    }

    #[test]
    fn flow_tables_are_told_from_others() {
        assert_eq!(flow_table("t12: no entry"), Some(12));
        assert_eq!(flow_table("normal_dst: no entry"), None);
    }
}

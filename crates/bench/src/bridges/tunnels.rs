//! `bench tunnels`: what a tunnel costs a packet.
//!
//! Two bridges on one worker, as a chassis has them: one with the ports of virtual machines, one with the network below. A
//! packet goes from one to the other by a tunnel port and the other bridge's own port, or comes that way; its outer
//! packets leave and come by a port in memory. Beside it: the same two bridges with a patch port between them, for the frames
//! that go into the tunnel and for the outer packets; and one bridge. All are timed in turns.
//!
//! What a tunnel costs "more than without" is its time less that of the bridges with a patch port, for frames that come in alike.

use super::own::{LOCAL, Network, Own};
use super::{Chain, FRAMES, timed};
use crate::options::BenchTunnelsOptions;
use crate::trace::Trace;
use control::failure::Failure;
use of_pipeline::Agent;
use openflow::{TlvMapping, TlvTableCommand, TlvTableMod};
use port::Port;
use port::patch::Panel;
use std::sync::Arc;
use tunnel::{Config, Hub, Kind};

/// A tunnel port's options, and the actions before a packet is sent there.
struct Case {
    kind: Kind,
    options: &'static str,
    actions: &'static str,
    /// It carries a Geneve option of 4 octets that has a field.
    option: bool,
}

const CASES: [Case; 4] = [
    Case {
        kind: Kind::Geneve,
        options: "key=flow",
        actions: "set_field:5->tun_id,",
        option: false,
    },
    Case {
        kind: Kind::Geneve,
        options: "key=flow",
        actions: "set_field:5->tun_id,set_field:0x10002->tun_metadata0,",
        option: true,
    },
    Case { kind: Kind::Vxlan, options: "key=5", actions: "", option: false },
    Case { kind: Kind::Gre, options: "key=5", actions: "", option: false },
];

/// Into the tunnel, or out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Way {
    /// Into it.
    Out,
    /// Out of it.
    In,
}

impl Case {
    fn name(&self) -> String {
        format!("{}{}", self.kind, if self.option { " with an option" } else { "" })
    }
}

/// `millrace bench tunnels`.
pub(crate) fn run(options: &BenchTunnelsOptions) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let wanted =
        |case: &&Case| options.only.as_ref().is_none_or(|only| case.name().contains(only.as_str()));
    for case in CASES.iter().filter(wanted) {
        let frames = || super::flows(options.flows, options.octets);
        let one = plain(frames())?;
        let two = patched(frames())?;
        let out = outward(case, frames())?;
        // What leaves by the first chassis comes to the second one.
        let outer = recorded(&out)?;
        let inward = inward(case, outer.clone())?;
        if let Some(way) = options.way {
            let chain = if way == Way::Out { out } else { inward };
            (0..options.runs).try_for_each(|_| chain.run().map(drop))?;
            continue;
        }
        let chains = [one, two, patched(outer)?, out, inward];
        let [one, two, two_outer, out, inward] = timed(&chains, options.runs)?[..] else {
            continue;
        };
        let name = case.name();
        if options.json {
            rows.push(serde_json::json!({
                "tunnel": name, "one_bridge_ns": one, "two_bridges_ns": two,
                "out_ns": out, "in_ns": inward,
                "two_bridges_outer_ns": two_outer,
                "out_more_ns": out - two, "in_more_ns": inward - two_outer,
            }));
        } else {
            println!(
                "{name}: out {out:.1} ns a packet, {:.1} more than {two:.1}; in {inward:.1}, {:.1} more than \
                 {two_outer:.1}; one bridge {one:.1}",
                out - two,
                inward - two_outer
            );
        }
    }
    if options.json {
        println!("{}", serde_json::json!({ "tunnels": rows }));
    }
    Ok(())
}

fn plain(frames: Trace) -> Result<Chain, Failure> {
    let mut chain = Chain::new(frames)?;
    let [from, to] = chain.ends()?;
    chain.bridge([from, to], |agent| super::flow(agent, "in_port=1 actions=output:2"))?;
    chain.settle()?;
    Ok(chain)
}

fn patched(frames: Trace) -> Result<Chain, Failure> {
    let mut chain = Chain::new(frames)?;
    let panel = Panel::new(1);
    let [from, to] = chain.ends()?;
    let patch = |own, peer| panel.open(own, peer).map_err(Failure::bad);
    let (left, right) = (patch("left", "right")?, patch("right", "left")?);
    for ports in [[from, Box::new(left) as Box<dyn Port>], [Box::new(right), to]] {
        chain.bridge(ports, |agent| super::flow(agent, "in_port=1 actions=output:2"))?;
    }
    chain.settle()?;
    Ok(chain)
}

/// A hub, a bridge's own port there, and a tunnel port.
fn tunnel(case: &Case) -> Result<(Hub, [Box<dyn Port>; 2]), Failure> {
    let hub = Hub::new(Panel::new(1).hops(), Arc::new(Network));
    let own = Own::new(&hub).ok_or_else(|| Failure::Bad("no port of the hub".to_owned()))?;
    // Its own address, so that what leaves may come back.
    let options = format!("remote_ip={LOCAL},{}", case.options);
    let config = Config::parse(case.kind, &options).map_err(Failure::bad)?;
    let tunnel = hub.open("tunnel", config).map_err(Failure::bad)?;
    Ok((hub, [Box::new(own), tunnel]))
}

/// Has a bridge and its tunnel port know the option, if the case has it.
fn map_option(case: &Case, hub: &Hub, agent: &mut Agent) -> Result<(), Failure> {
    let hub = hub.clone();
    agent.set_options_follower(Box::new(move |map| {
        hub.set_options("tunnel", map.clone());
    }));
    if !case.option {
        return Ok(());
    }
    let mapping = TlvMapping { class: 0x102, kind: 0x80, len: 4, index: 0 };
    let request = TlvTableMod { command: TlvTableCommand::Add, mappings: vec![mapping] };
    agent.change_options(&request).map_err(Failure::bad)
}

fn outward(case: &Case, frames: Trace) -> Result<Chain, Failure> {
    let mut chain = Chain::new(frames)?;
    let [from, to] = chain.ends()?;
    let (hub, [own, tunnel]) = tunnel(case)?;
    chain.bridge([from, tunnel], |agent| {
        map_option(case, &hub, agent)?;
        super::flow(agent, &format!("in_port=1 actions={}output:2", case.actions))
    })?;
    chain.bridge([own, to], |agent| super::flow(agent, "in_port=1 actions=output:2"))?;
    chain.settle()?;
    Ok(chain)
}

fn inward(case: &Case, frames: Trace) -> Result<Chain, Failure> {
    let mut chain = Chain::new(frames)?;
    let [from, to] = chain.ends()?;
    let (hub, [own, tunnel]) = tunnel(case)?;
    chain.bridge([from, own], |agent| super::flow(agent, "in_port=1 actions=output:2"))?;
    chain.bridge([tunnel, to], |agent| {
        map_option(case, &hub, agent)?;
        super::flow(agent, "in_port=1 actions=output:2")
    })?;
    chain.settle()?;
    Ok(chain)
}

/// One outer packet for each frame of a chain.
fn recorded(chain: &Chain) -> Result<Trace, Failure> {
    chain.to.record(true);
    chain.run()?;
    chain.to.record(false);
    let mut trace = Trace::default();
    let packets = chain.to.recorded();
    let more = chain.length as u64 * (FRAMES / chain.length as u64);
    for packet in packets.iter().take(chain.length.min(more as usize)) {
        trace.push(1, packet);
    }
    Ok(trace)
}

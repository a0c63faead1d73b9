//! The running process: what it hands over, and how it takes all back.

use super::counted;
use super::handover::{Handover, Phase};
use super::services;
use super::sockets::{self, Socket};
use super::told;
use super::wire::{Parts, STEPS, Told, VERSION};
use crate::bridges::{Bridge, Bridges};
use crate::controllers::openflow::OpenFlow;
use crate::controllers::p4::P4;
use crate::failure::Failure;
use crate::image;
use crate::persist::p4;
use crate::ports::{LetGo, let_go, take_back};
use crate::program::again;
use crate::protocol::Reply;
use crate::sync::lock;
use datapath::services::Connections;
use of_pipeline::Agent;
use openflow::codec::{self, EncodeError};
use openflow::{Message, MeterModCommand, Xid};
use p4_runtime::device::Device;
use port::kind::Environment;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use switch::Switch;

/// A new process that says nothing for so long is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// One that says nothing for so long while packets have stopped is given up.
const STOPPED_MAX: Duration = Duration::from_secs(30);
/// Pauses between attempts to open sockets that the new process has not closed yet.
const BACK_PAUSE: Duration = Duration::from_millis(100);

/// Frames on their way between bridges are waited for so long: some may go round in circles.
const DRAIN_MAX: Duration = Duration::from_millis(100);

/// The answer, before the conversation.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// What this process is able to do: see the head of [`takeover`](super).
    pub take_over: u64,
}

/// The running process's answer, of all its bridges. `given` are the services that it was started with.
pub(crate) fn stream(
    bridges: &Bridges,
    handover: &Arc<Handover>,
    given: &[String],
) -> Result<Reply<Answer>, String> {
    let told = told::tell(bridges, given)?;
    let sides: Vec<Side> = bridges.all().into_iter().filter_map(Side::of).collect();
    handover.ask()?;
    let (environment, handover) = (bridges.defaults().environment.clone(), handover.clone());
    Ok(Reply::Stream(
        Answer { take_over: STEPS },
        Box::new(move |client| {
            tracing::info!("another process is taking over");
            sides.iter().for_each(Side::let_clients_go);
            let (sides, handover, environment) = (&sides[..], &*handover, &environment);
            let mut own =
                Own { sides, told, handover, environment, client, gone: None, counted: Vec::new() };
            let timeouts = client.set_read_timeout(Some(SILENCE));
            let timeouts = timeouts.and_then(|()| client.set_write_timeout(Some(SILENCE)));
            let done = timeouts
                .and_then(|()| converse(BufReader::new(client.take(1 << 20)), client, &mut own));
            for connections in
                sides.iter().filter_map(|side| side.switch().services().connections())
            {
                connections.unwatch();
            }
            match &done {
                Ok(true) => handover.enter(Phase::Told),
                // It can no longer go on: it was told that it is no more needed.
                Err(_) if !handover.is_asked() => handover.enter(Phase::Told),
                Ok(false) | Err(_) => own.go_on(),
            }
            done.map(|_| ())
        }),
    ))
}

/// What the running process does for the new one. A bridge is named, or the first is meant.
pub(crate) trait Gives {
    /// Which bridges there are.
    fn bridges(&mut self, out: &mut dyn Write) -> std::io::Result<()>;
    /// A bridge's entries, as messages.
    fn entries(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()>;
    /// Its P4 program, and what clients have written.
    fn program(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()>;
    /// All its connections, whose changes are kept in mind from now on.
    fn connections(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()>;
    /// What has changed since.
    fn changes(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()>;
    /// Packets stop, at all bridges.
    fn stop(&mut self) -> std::io::Result<()>;
    /// What its services keep.
    fn services(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()>;
    /// What packets have written to its P4 program.
    fn state(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()>;
    /// Answers, by itself, with what ports receive by.
    fn sockets(&mut self, _bridge: &str) -> std::io::Result<()> {
        Err(Error::other("sockets go by a Unix socket"))
    }
    /// It ends, and tells what ports and entries have counted.
    fn finish(&mut self, out: &mut dyn Write) -> std::io::Result<()>;
}

/// Answers until the end; false if the new process went away before.
pub(crate) fn converse(
    mut lines: impl BufRead,
    mut to: impl Write,
    gives: &mut dyn Gives,
) -> std::io::Result<bool> {
    let (mut line, mut stopped) = (String::new(), false);
    loop {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let mut out = Parts::new(&mut to);
        let (step, bridge) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        if step == "sockets" && stopped {
            gives.sockets(bridge)?;
            continue;
        }
        match step {
            "bridges" => gives.bridges(&mut out)?,
            "entries" => gives.entries(bridge, &mut out)?,
            "program" => gives.program(bridge, &mut out)?,
            "connections" => gives.connections(bridge, &mut out)?,
            "changes" => gives.changes(bridge, &mut out)?,
            "services" if stopped => gives.services(bridge, &mut out)?,
            "state" if stopped => gives.state(bridge, &mut out)?,
            "stop" | "finish" => {
                if !std::mem::replace(&mut stopped, true) {
                    gives.stop()?;
                    gives.changes("", &mut out)?;
                } else if step == "stop" {
                    gives.changes("", &mut out)?;
                }
                if step == "finish" {
                    gives.finish(&mut out)?;
                    out.end()?;
                    return Ok(true);
                }
            }
            other => return Err(Error::other(format!("{other:?} is nothing to ask for"))),
        }
        out.end()?;
    }
}

/// A bridge, and what programs it.
struct Side {
    bridge: Arc<Bridge>,
    by: By,
}

enum By {
    OpenFlow(Arc<OpenFlow>),
    P4(Arc<P4>),
}

impl Side {
    fn of(bridge: Arc<Bridge>) -> Option<Side> {
        let controllers = bridge.controllers();
        let by = match (controllers.find::<OpenFlow>(), controllers.find::<P4>()) {
            (Some(openflow), _) => By::OpenFlow(openflow),
            (None, p4) => By::P4(p4?),
        };
        Some(Side { bridge, by })
    }

    fn switch(&self) -> &Switch {
        self.bridge.switch()
    }

    /// So that nothing is programmed that the new process would not know of.
    fn let_clients_go(&self) {
        match &self.by {
            By::OpenFlow(openflow) => drop(lock(&openflow.channel).take()),
            By::P4(p4) => p4.pause(),
        }
    }

    /// They may come again.
    fn take_clients(&self) -> Result<(), Failure> {
        match &self.by {
            By::OpenFlow(openflow) => openflow.start(self.switch()),
            By::P4(p4) => p4.resume(),
        }
    }

    fn openflow(&self) -> std::io::Result<&OpenFlow> {
        match &self.by {
            By::OpenFlow(openflow) => Ok(openflow),
            By::P4(_) => Err(Error::other("this bridge runs a P4 program")),
        }
    }

    fn device(&self) -> std::io::Result<&Arc<Device>> {
        match &self.by {
            By::OpenFlow(_) => Err(Error::other("this bridge runs no P4 program")),
            By::P4(p4) => p4.device().map_err(Error::other),
        }
    }
}

/// This process, as the running one.
struct Own<'a> {
    sides: &'a [Side],
    told: Told,
    handover: &'a Handover,
    environment: &'a Environment,
    client: &'a UnixStream,
    /// Packets have stopped, and these ports of each bridge are closed.
    gone: Option<Vec<Vec<LetGo>>>,
    /// What ports of each bridge had counted before they were closed.
    counted: Vec<Vec<counted::Counted>>,
}

impl Own<'_> {
    fn side(&self, name: &str) -> std::io::Result<(usize, &Side)> {
        let is = |side: &Side| side.bridge.name() == name;
        let at = match name.is_empty() {
            // Another version's, which knows of one bridge with OpenFlow's tables: the rest would be lost.
            true if self.sides.len() > 1 => {
                return Err(Error::other(
                    "the new process takes over one bridge, and there are others",
                ));
            }
            true => Some(0),
            false => self.sides.iter().position(is),
        };
        let found = at.and_then(|at| Some((at, self.sides.get(at)?)));
        found.ok_or_else(|| Error::other(format!("there is no bridge {name:?}")))
    }

    fn tracked(&self, name: &str) -> std::io::Result<(&Switch, &Connections)> {
        let switch = self.side(name)?.1.switch();
        let none = || Error::other("this switch tracks no connections");
        let connections = switch.services().connections();
        connections.map(|connections| (switch, &**connections)).ok_or_else(none)
    }

    /// Takes everything back.
    fn go_on(self) {
        tracing::warn!("the process that was taking over has gone; going on");
        if let Some(gone) = self.gone {
            self.sides.iter().for_each(|side| side.switch().set_receiving(true));
            let mut gone = gone.into_iter();
            for side in self.sides {
                take_back(self.environment, side.switch(), gone.next().unwrap_or_default());
            }
            self.sides.iter().filter_map(|side| side.bridge.kept()).for_each(|kept| kept.reopen());
        }
        // The sockets of the other one may not be closed yet.
        let mut said = false;
        for side in self.sides {
            while let Err(error) = side.take_clients() {
                if !std::mem::replace(&mut said, true) {
                    let error = error.text();
                    tracing::error!(
                        error,
                        "controllers cannot come yet; it is tried again and again"
                    );
                }
                std::thread::sleep(BACK_PAUSE);
            }
        }
        self.handover.enter(Phase::Own);
    }

    /// Packets stop at all bridges: none is left on its way from one to another.
    fn stop_packets(&self) {
        self.sides.iter().for_each(|side| side.switch().receive_inside());
        let (until, mut quiet) = (Instant::now() + DRAIN_MAX, 0);
        // One that was on its way while it was asked for is found when all are asked again.
        while quiet <= self.sides.len() && Instant::now() < until {
            let waits = self.sides.iter().any(|side| side.switch().waits_inside());
            quiet = if waits { 0 } else { quiet + 1 };
        }
        self.sides.iter().for_each(|side| side.switch().set_receiving(false));
    }
}

impl Gives for Own<'_> {
    fn bridges(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        serde_json::to_writer(out, &self.told).map_err(Error::other)
    }

    fn entries(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()> {
        entries(&mut lock(&self.side(bridge)?.1.openflow()?.agent), out)
    }

    fn program(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()> {
        let image = self.side(bridge)?.1.device()?.handed();
        out.write_all(p4::record(&image.map_err(|e| Error::other(e.text))?).bytes())
    }

    fn connections(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()> {
        let (switch, connections) = self.tracked(bridge)?;
        connections.export_watched(&|| switch.now_ns(), image::clock(), out).map(|_| ())
    }

    fn changes(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()> {
        let of = match bridge {
            "" => self.sides.first(),
            name => Some(self.side(name)?.1),
        };
        // A P4 program has none.
        let Some(connections) = of.and_then(|side| side.switch().services().connections()) else {
            return Ok(());
        };
        let switch = of.map(Side::switch);
        let now_ns = || switch.map_or(0, Switch::now_ns);
        connections.export_changes(&now_ns, image::clock(), out).map(|_| ())
    }

    fn stop(&mut self) -> std::io::Result<()> {
        self.client.set_read_timeout(Some(STOPPED_MAX))?;
        self.client.set_write_timeout(Some(STOPPED_MAX))?;
        self.stop_packets();
        self.counted = self.sides.iter().map(|side| counted::ports(side.switch())).collect();
        self.gone = Some(Vec::new());
        let mut gone = Vec::new();
        for side in self.sides {
            match let_go(side.switch(), &side.bridge.port_configs()) {
                Ok(ports) => gone.push(ports),
                Err(error) => {
                    self.gone = Some(gone);
                    return Err(Error::other(error));
                }
            }
        }
        self.gone = Some(gone);
        self.sides.iter().filter_map(|side| side.bridge.kept()).for_each(|kept| kept.close());
        Ok(())
    }

    fn services(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()> {
        services::give(self.side(bridge)?.1.switch(), image::clock(), out)
    }

    fn state(&mut self, bridge: &str, out: &mut dyn Write) -> std::io::Result<()> {
        let image = self.side(bridge)?.1.device()?.state();
        out.write_all(p4::record(&image.map_err(|e| Error::other(e.text))?).bytes())
    }

    fn sockets(&mut self, bridge: &str) -> std::io::Result<()> {
        let (at, side) = self.side(bridge)?;
        let all = side.switch().receiving_sockets().into_iter();
        let all = all.map(|(number, interface, socket)| Socket { number, interface, socket });
        let gone = self.gone.iter().flat_map(|gone| gone.get(at)).flatten();
        let all = all.chain(gone.filter_map(LetGo::socket));
        sockets::send(self.client, &all.collect::<Vec<_>>())
    }

    fn finish(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        // There is no way back.
        self.handover.ending();
        for (at, side) in self.sides.iter().enumerate() {
            let ports = self.counted.get_mut(at).map(std::mem::take).unwrap_or_default();
            let mut agent = side.openflow().ok().map(|openflow| lock(&openflow.agent));
            // The switch goes on all the same.
            let given = counted::give(side.bridge.name(), ports, agent.as_deref_mut(), out);
            given.inspect_err(|error| tracing::warn!(%error, "counters are not handed over"))?;
        }
        self.handover.end()?;
        self.handover.wait_for(Phase::Freed);
        Ok(())
    }
}

/// What the switch holds, as messages that add it elsewhere.
fn entries(agent: &mut Agent, out: &mut dyn Write) -> std::io::Result<()> {
    let features = agent.handle(VERSION, Message::FeaturesRequest);
    let features = features.map_err(|e| Error::other(e.to_string()))?;
    let (mut bytes, mut wrong) = (Vec::new(), None);
    let mut write = |mut message: Message| {
        bytes.clear();
        // The version has not all of 1.0's actions.
        openflow::keep_v10(&mut message);
        codec::encode_into(&mut bytes, VERSION, Xid(0), &message)?;
        if let Err(error) = out.write_all(&bytes) {
            wrong.get_or_insert(error);
        }
        Ok::<_, EncodeError>(())
    };
    all(agent, features, &mut write).map_err(|e| Error::other(e.to_string()))?;
    wrong.map_or(Ok(()), Err)
}

fn all(
    agent: &Agent,
    features: Vec<Message>,
    write: &mut dyn FnMut(Message) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    features.into_iter().try_for_each(&mut *write)?;
    for (number, meter) in agent.meters().iter() {
        write(again::meter(MeterModCommand::Add, number, meter))?;
    }
    for (number, _) in agent.groups().iter() {
        write(again::no_group(number))?;
    }
    for (number, group) in agent.groups().iter() {
        again::group(number, group, write)?;
    }
    let now_ns = agent.switch().now_ns();
    for table in 0..agent.flows().tables() as u8 {
        // What a synchronised table reflects comes with its source.
        for (_, flow) in agent.flows().iter(table).filter(|(_, flow)| !flow.synchronised) {
            write(Message::FlowMod(again::flow_with_time_left(table, flow, now_ns)))?;
        }
    }
    Ok(())
}

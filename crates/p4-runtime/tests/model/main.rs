//! Three clients that open and close streams, run for elections, push programs, write and read, beside a plain model.
//! Now and then what is kept for a restart is put into a new device, which has to be the same.
//! `P4RUNTIME_MODEL=1000000` runs longer, `P4RUNTIME_SEED=N` otherwise.
//!
//! | module | holds |
//! |---|---|
//! | [`world`] | the model: what a device holds, and what updates make of it |
//! | [`reads`] | what reads are answered with |
//! | [`draw`] | random updates and reads |

#[allow(unreachable_pub)]
#[path = "../common/mod.rs"]
mod common;
mod draw;
mod reads;
mod world;

use common::{Bed, Mirror, arbitration, bed};
use draw::Random;
use p4_runtime::proto::v1;
use prost::Message as _;
use tokio::sync::mpsc::Receiver;
use v1::entity::Entity as E;
use v1::set_forwarding_pipeline_config_request::Action as Push;
use v1::stream_message_response::Update as Told;
use v1::update::Type;
use world::{ABORTED, DENIED, Ids, MISSING, OK, PRECONDITION, World};

const PROGRAM: &str = include_str!("program.p4");

/// A client as the model knows it.
#[derive(Default)]
struct Client {
    stream: Option<(u64, Receiver<p4_runtime::streams::Told>)>,
    election: Option<u128>,
    arbitrated: bool,
    /// What it was told last.
    code: Option<i32>,
}

/// How often something was done.
#[derive(Debug, Default)]
struct Counts {
    elections: u64,
    writes: u64,
    updates: u64,
    taken: u64,
    reads: u64,
    entities: u64,
    pushes: u64,
}

struct Run {
    bed: Bed,
    ids: Ids,
    /// Configs of the program, without and with the table `extra`.
    configs: [v1::ForwardingPipelineConfig; 2],
    random: Random,
    clients: [Client; 3],
    highest: Option<u128>,
    primary: Option<usize>,
    world: World,
    saved: Option<bool>,
    counts: Counts,
}

/// What a client asks for with an election id.
fn id_of(client: &Client) -> v1::Uint128 {
    let id = client.election.unwrap_or(77_777);
    v1::Uint128 { high: (id >> 64) as u64, low: id as u64 }
}

fn setup(seed: u64) -> Run {
    let both = PROGRAM.replace("//EXTRA ", "");
    let config = |text: &str| {
        let built = p4_runtime::config::compile(text, p4::limits::Limits::default());
        v1::ForwardingPipelineConfig {
            p4info: Some(built.map_err(|e| e.text).unwrap().info),
            p4_device_config: text.as_bytes().to_vec(),
            cookie: None,
        }
    };
    let configs = [config(PROGRAM), config(&both)];
    let info = configs[1].p4info.as_ref().unwrap();
    let mut tables = info.tables.iter().filter_map(|t| t.preamble.as_ref());
    let extra = tables.find(|p| p.name == "I.extra").unwrap().id;
    let bed = bed(PROGRAM);
    let ids = Ids::of(&bed, extra);
    let world = World::new(&ids, false);
    Run {
        bed,
        ids,
        configs,
        random: Random(seed),
        clients: Default::default(),
        highest: None,
        primary: None,
        world,
        saved: None,
        counts: Counts::default(),
    }
}

impl Run {
    fn gone(&mut self, who: usize) {
        self.clients[who] = Client::default();
        if self.primary == Some(who) {
            self.primary = None;
        }
    }

    fn open_or_close(&mut self, who: usize) {
        match self.clients[who].stream.take() {
            Some((stream, _)) => {
                self.bed.device.close(stream);
                self.gone(who);
            }
            None => self.clients[who].stream = Some(self.bed.device.open()),
        }
    }

    fn elect(&mut self, who: usize) {
        let Some((stream, _)) = self.clients[who].stream else { return };
        // Mostly near the highest one.
        let near = self.highest.unwrap_or(0).saturating_sub(2);
        let id = (self.random.below(8) > 0).then(|| near + u128::from(self.random.below(5)));
        let done = self.bed.device.message(stream, arbitration(id));
        self.counts.elections += 1;
        let taken = |n: usize| self.clients[n].arbitrated && self.clients[n].election == id;
        let duplicate = id.is_some() && (0..3).any(|n| n != who && taken(n));
        assert_eq!(done.is_err(), duplicate, "{done:?}");
        if duplicate {
            // The server ends the stream.
            self.bed.device.close(stream);
            self.gone(who);
            return;
        }
        self.clients[who].election = id;
        self.clients[who].arbitrated = true;
        if id.is_some() && id >= self.highest {
            (self.highest, self.primary) = (id, Some(who));
        } else if self.primary == Some(who) {
            self.primary = None;
        }
    }

    fn write(&mut self, who: usize) {
        let mut request = self.random.batch(&self.ids, &self.world);
        request.election_id = Some(id_of(&self.clients[who]));
        // As a message, and as it comes over a connection.
        let done = match self.counts.writes % 2 {
            0 => self.bed.device.write(&request),
            _ => self.bed.device.write_encoded(&request.encode_to_vec()),
        };
        self.counts.writes += 1;
        if self.primary != Some(who) {
            assert_eq!(done.unwrap_err().code(), tonic::Code::PermissionDenied);
            return;
        }
        self.counts.updates += request.updates.len() as u64;
        let mut after = self.world.clone();
        let mut expected = Vec::new();
        for update in &request.updates {
            let entity = update.entity.as_ref().and_then(|e| e.entity.as_ref()).unwrap();
            let kind = Type::try_from(update.r#type).unwrap();
            expected.push(after.update(&self.ids, kind, entity));
        }
        let whole = request.atomicity != 0;
        if let Some(first) = expected.iter().position(|c| *c != OK).filter(|_| whole) {
            let own = expected[first];
            expected.fill(ABORTED);
            expected[first] = own;
            after = self.world.clone();
        }
        let codes = match done {
            Ok(_) => vec![OK; expected.len()],
            Err(status) => {
                let told = p4_runtime::proto::rpc::Status::decode(status.details()).unwrap();
                let code =
                    |d: &prost_types::Any| v1::Error::decode(&d.value[..]).unwrap().canonical_code;
                told.details.iter().map(code).collect()
            }
        };
        assert_eq!(codes, expected, "{request:#?}\n{:#?}", self.world);
        self.counts.taken += expected.iter().filter(|c| **c == OK).count() as u64;
        self.world = after;
    }

    fn read(&mut self) {
        self.counts.reads += 1;
        let n = 1 + self.random.below(2);
        let asked: Vec<E> = (0..n).map(|_| self.random.asked(&self.ids, &self.world)).collect();
        let mut wanted: Vec<E> = asked.iter().flat_map(|e| self.world.read(&self.ids, e)).collect();
        let entities = asked.iter().map(|e| v1::Entity { entity: Some(e.clone()) });
        let request = v1::ReadRequest {
            device_id: 1,
            entities: entities.collect(),
            ..v1::ReadRequest::default()
        };
        let told = self.bed.device.read(&request).map_err(|e| e.text).unwrap();
        let mut told: Vec<E> = told.into_iter().filter_map(|e| e.entity).collect();
        let order = |e: &E| v1::Entity { entity: Some(e.clone()) }.encode_to_vec();
        told.sort_by_cached_key(order);
        wanted.sort_by_cached_key(order);
        assert_eq!(told, wanted, "{asked:#?}");
        self.counts.entities += told.len() as u64;
        // What is not there is refused, and nothing else is told for it.
        let nothing = E::TableEntry(v1::TableEntry { table_id: 7, ..v1::TableEntry::default() });
        let request = v1::ReadRequest {
            device_id: 1,
            entities: vec![v1::Entity { entity: Some(nothing) }],
            ..v1::ReadRequest::default()
        };
        assert_eq!(self.bed.device.read(&request).unwrap_err().code as i32, MISSING);
    }

    fn push(&mut self, who: usize) {
        self.counts.pushes += 1;
        let all = [
            Push::Verify,
            Push::VerifyAndSave,
            Push::VerifyAndCommit,
            Push::Commit,
            Push::ReconcileAndCommit,
            Push::ReconcileAndCommit,
            Push::ReconcileAndCommit,
            Push::ReconcileAndCommit,
        ];
        let (action, extra) = (self.random.of(&all), self.random.below(2) == 1);
        let config = self.configs[usize::from(extra)].clone();
        let request = v1::SetForwardingPipelineConfigRequest {
            device_id: 1,
            election_id: Some(id_of(&self.clients[who])),
            action: action as i32,
            config: (action != Push::Commit).then_some(config),
            ..v1::SetForwardingPipelineConfigRequest::default()
        };
        let done = self.bed.device.set_pipeline(&request);
        let code = done.map_or_else(|fault| fault.code as i32, |_| OK);
        let fresh = |run: &Run, extra| World::new(&run.ids, extra);
        let wanted = match action {
            _ if self.primary != Some(who) => DENIED,
            Push::VerifyAndSave => {
                self.saved = Some(extra);
                OK
            }
            Push::Commit => match self.saved.take() {
                Some(extra) => {
                    self.world = fresh(self, extra);
                    OK
                }
                None => PRECONDITION,
            },
            Push::VerifyAndCommit => {
                self.world = fresh(self, extra);
                OK
            }
            Push::ReconcileAndCommit => {
                let lost = self.world.entries.keys().any(|k| k.0 == self.ids.extra) && !extra;
                if !lost {
                    self.world.has_extra = extra;
                    self.world.reconciled();
                }
                if lost { PRECONDITION } else { OK }
            }
            _ => OK,
        };
        assert_eq!(code, wanted, "{action:?}");
    }

    /// What each client was told last is what holds.
    fn check_streams(&mut self) {
        for (n, client) in self.clients.iter_mut().enumerate() {
            let Some((_, told)) = &mut client.stream else { continue };
            while let Ok(message) = told.try_recv() {
                if let Some(Told::Arbitration(update)) = message.unwrap().update {
                    client.code = Some(update.status.map_or(0, |s| s.code));
                }
            }
            if client.arbitrated {
                let code = match self.primary {
                    Some(primary) if primary == n => 0,
                    Some(_) => 6,
                    None => 5,
                };
                assert_eq!(client.code, Some(code), "client {n}");
            }
        }
    }
}

/// What the switch has is what the program's control has.
fn follows(bed: &Bed) {
    let control = ir::text::print_pipeline(&bed.host.lock().unwrap().control().pipeline);
    assert_eq!(bed.switch.with_pipeline(ir::text::print_pipeline), control);
}

fn number(name: &str, else_: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(else_)
}

#[test]
fn three_clients_and_the_model_agree() {
    let count = number("P4RUNTIME_MODEL", 10_000);
    let mut run = setup(number("P4RUNTIME_SEED", 0x2545_f491_4f6c_dd1d).max(1));
    let mirror = Mirror::of(&run.bed.device);
    for n in 0..count {
        if n % 2000 == 0 {
            follows(&run.bed);
            // What is kept meanwhile makes the same again.
            follows(&mirror.check(&run.bed.device));
        }
        let who = run.random.below(3) as usize;
        // Without a primary little would happen.
        let lonely = run.primary.is_none() && run.random.below(3) > 0;
        match run.random.below(if lonely { 16 } else { 400 }) {
            0..4 => run.open_or_close(who),
            4..16 => run.elect(who),
            16 | 17 => run.push(who),
            18..280 => {
                // Mostly by whoever may.
                let by = run.primary.filter(|_| run.random.below(8) > 0);
                run.write(by.unwrap_or(who));
            }
            _ => run.read(),
        }
        run.check_streams();
    }
    follows(&run.bed);
    mirror.check(&run.bed.device);
    eprintln!("{count} operations: {:?}", run.counts);
    let c = &run.counts;
    assert!(c.taken > count / 4 && c.entities > count && c.elections > 0 && c.pushes > 0);
}

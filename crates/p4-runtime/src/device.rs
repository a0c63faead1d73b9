//! The device: what each request does, without gRPC.
//!
//! Locks, in this order: arbitration → program → host; streams below all of them, for a moment. A write holds
//! arbitration as a reader: an election waits until writes of the primary before it are done, and whoever is told
//! that it is primary finds them in force.

mod kept;
mod moved;

use crate::arbitration::{Arbitration, Notice, StreamId, election, role_name};
use crate::code::{Code, Fault, batch, fault};
use crate::config::{self, Built};
use crate::digests::Lists;
use crate::entity::{self, DigestConfig, Reading, Writing, plain};
use crate::host::{Done, Host, Loaded};
use crate::packet::Headers;
use crate::proto::{info, v1};
use crate::reference::{self, Index, References};
use crate::role::Rights;
use crate::schema::Schema;
use crate::streams::{Streams, Told};
use crate::wire;
use ir::TableId;
use kept::Kept;
use p4::limits::Limits;
use p4::lower::Lowered;
use port::memory::Handle;
use prost::Message as _;
use std::collections::BTreeMap;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::{Duration, Instant};
use switch::{Message, Switch};
use tokio::sync::mpsc::Receiver;
use tonic::Status;
use v1::set_forwarding_pipeline_config_request::Action;
use v1::stream_message_response::Update;
use v1::write_request::Atomicity;

pub use kept::{Flush, KeptPipeline, PutBack};

/// Updates of a write, at most.
const UPDATES_MAX: usize = 1 << 20;
/// Entities of a read request, at most.
const ASKED_MAX: usize = 4096;

/// What a device is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its id; 0 is meant for it, too.
    pub device_id: u64,
}

/// A pipeline that forwards.
struct Committed {
    config: v1::ForwardingPipelineConfig,
    schema: Schema,
    references: References,
    /// The host's program.
    generation: u64,
    /// The process was started with it.
    started: bool,
}

/// What was pushed.
#[derive(Default)]
struct Program {
    committed: Option<Committed>,
    saved: Option<(Lowered, v1::ForwardingPipelineConfig)>,
    digests: BTreeMap<u32, DigestConfig>,
    /// Who refers to what, where there are references; made anew when something else has changed entries.
    references: Option<Index>,
    lists: Lists,
    kept: Option<Kept>,
}

/// The device.
pub struct Device {
    options: Options,
    host: Arc<Mutex<Host>>,
    switch: Switch,
    workers: usize,
    arbitration: RwLock<Arbitration>,
    program: Mutex<Program>,
    streams: Mutex<Streams>,
    headers: RwLock<Arc<Headers>>,
    /// The far end of the CPU port.
    cpu: Option<Handle>,
    /// Where changes are kept: waits until what was told is.
    flush: OnceLock<Flush>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn look<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn change<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// A device of this host; packets of the controller's pass the port at whose far end `cpu` is.
    pub fn new(options: Options, host: Arc<Mutex<Host>>, cpu: Option<Handle>) -> Device {
        let (workers, switch) = {
            let host = lock(&host);
            (host.workers(), host.switch().clone())
        };
        Device {
            options,
            host,
            switch,
            workers,
            arbitration: RwLock::default(),
            program: Mutex::default(),
            streams: Mutex::default(),
            headers: RwLock::default(),
            cpu,
            flush: OnceLock::new(),
        }
    }

    /// The program that the host was started with, as if it had been pushed.
    pub fn started_with(&self, info: &[u8], text: &str) -> Result<(), Fault> {
        let info = info::P4Info::decode(info)
            .map_err(|e| fault!(Internal, "the program's P4Info is not read back: {e}"))?;
        let config = v1::ForwardingPipelineConfig {
            p4info: Some(info),
            p4_device_config: text.as_bytes().to_vec(),
            cookie: None,
        };
        let mut program = lock(&self.program);
        let host = lock(&self.host);
        let control = host.control();
        let info = config.p4info.as_ref();
        let info = info.ok_or_else(|| fault!(Internal, "the program has no P4Info"))?;
        let schema = Schema::bind(info, &control.names, control.pipeline.program())?;
        let tables: Vec<TableId> = schema.tables.values().map(|t| t.table).collect();
        let all = tables.iter().flat_map(|t| control.pipeline.entries(*t).iter().map(|e| (*t, e)));
        let own = all.filter(|(_, e)| control.is_own(e.id)).map(|(t, e)| (t, &**e));
        let refs = reference::bind(info, &schema)?;
        entity::table::own_keep_to(&refs, &schema, control.pipeline.program(), own)?;
        self.commit(&mut program, config, (schema, refs), host.generation());
        program.committed.iter_mut().for_each(|committed| committed.started = true);
        Ok(())
    }

    /// Lines of `millrace p4 do`. They keep to references as writes do, while the P4Info fits the program.
    pub fn commands(&self, text: &str) -> Done {
        let mut program = lock(&self.program);
        let mut host = lock(&self.host);
        let done = Self::guarded(&mut program, &mut host, text);
        Self::keep_all(&mut program, &mut host);
        drop(host);
        drop(program);
        self.flush();
        done
    }

    /// Puts a program in place of the one that runs, beside clients: `millrace p4 load`. Clients go on with the P4Info that they
    /// pushed if it fits; else the pipeline is the program's own.
    pub fn load(
        &self,
        (lowered, compile_ms): (Lowered, f64),
        (info, text): (&[u8], Vec<u8>),
    ) -> Result<Loaded, String> {
        let mut program = lock(&self.program);
        let mut host = lock(&self.host);
        let before = program.committed.as_ref();
        let strings = before.map(|c| c.schema.strings.clone()).unwrap_or_default();
        let pushed = before.filter(|c| !c.started).map(|c| c.config.clone());
        let own = info::P4Info::decode(info).map_err(|e| format!("the program's P4Info: {e}"))?;
        let own = v1::ForwardingPipelineConfig { p4info: Some(own), ..Default::default() };
        let bind = |config: v1::ForwardingPipelineConfig| {
            let info = config.p4info.as_ref()?;
            let schema = Schema::bind_after(info, &lowered.names, &lowered.program, &strings);
            let schema = schema.ok()?;
            let refs = reference::bind(info, &schema).ok()?;
            Some((config, (schema, refs)))
        };
        let bound = pushed.and_then(bind).or_else(|| bind(own));
        if bound.is_none() && program.kept.is_some() {
            return Err("--persist cannot keep this program's entries: its P4Info does not fit it"
                .to_owned());
        }
        let loaded = host.load((lowered, compile_ms))?;
        if let Some((mut config, (schema, refs))) = bound {
            config.p4_device_config = text;
            program.digests.retain(|id, _| schema.digests.contains_key(id));
            self.commit(&mut program, config, (schema, refs), host.generation());
        }
        Self::keep_all(&mut program, &mut host);
        drop(host);
        drop(program);
        self.flush();
        Ok(loaded)
    }

    fn guarded(program: &mut Program, host: &mut Host, text: &str) -> Done {
        let bound = Self::bound(program, host).is_ok();
        let Program { committed, references, .. } = program;
        let committed = committed.as_ref().filter(|c| bound && !c.references.is_empty());
        let Some(Committed { schema, references: refs, .. }) = committed else {
            return host.commands(text);
        };
        let of = (host.generation(), host.edits());
        let index = references.take().filter(|index| index.of == of);
        let index =
            index.unwrap_or_else(|| entity::referring::index(refs, schema, host.control(), of));
        let index = Arc::new(Mutex::new(index));
        let (schema, refs) = (schema.clone(), refs.clone());
        let watch = reference::Watch {
            schema,
            references: refs,
            index: index.clone(),
            asked: None,
            default: None,
        };
        host.parts().0.set_guard(Some(Box::new(watch)));
        let done = host.commands(text);
        host.parts().0.set_guard(None);
        if let Some(mut index) = Arc::into_inner(index).and_then(|index| index.into_inner().ok()) {
            index.of = (host.generation(), host.edits());
            *references = Some(index);
        }
        done
    }

    fn is_ours(&self, device_id: u64) -> Result<(), Fault> {
        match device_id == 0 || device_id == self.options.device_id {
            true => Ok(()),
            false => Err(fault!(
                NotFound,
                "there is no device {device_id}; this is device {}",
                self.options.device_id
            )),
        }
    }

    /// `Capabilities`
    pub fn capabilities(&self) -> v1::CapabilitiesResponse {
        v1::CapabilitiesResponse { p4runtime_api_version: "1.5.0".to_owned(), experimental: None }
    }

    /// The pipeline, bound anew if the program was changed beside this server.
    fn bound<'p>(program: &'p mut Program, host: &Host) -> Result<&'p Committed, Fault> {
        let Program { committed, .. } = program;
        let committed = committed.as_mut().ok_or_else(|| {
            fault!(
                FailedPrecondition,
                "no forwarding pipeline config is set; SetForwardingPipelineConfig pushes one"
            )
        })?;
        if committed.generation != host.generation() {
            let info = committed.config.p4info.clone().unwrap_or_default();
            let control = host.control();
            let strings = &committed.schema.strings;
            let schema =
                Schema::bind_after(&info, &control.names, control.pipeline.program(), strings);
            committed.schema = schema.map_err(|e| {
                fault!(
                    FailedPrecondition,
                    "the program was replaced beside P4Runtime and does not fit the P4Info any more; push a \
                     pipeline ({})",
                    e.text
                )
            })?;
            committed.generation = host.generation();
        }
        Ok(committed)
    }

    /// `Write`
    pub fn write(&self, request: &v1::WriteRequest) -> Result<v1::WriteResponse, Box<Status>> {
        self.write_all(request, &Updates::Messages(&request.updates))
    }

    /// `Write`, of a request as it comes.
    pub fn write_encoded(&self, bytes: &[u8]) -> Result<v1::WriteResponse, Box<Status>> {
        let request = wire::Request::read(bytes);
        let request = request.map_err(|e| Box::new(Status::internal(e.to_string())))?;
        self.write_all(&request.head, &Updates::Encoded(&request))
    }

    #[allow(deprecated, reason = "old clients number roles")]
    fn write_all(
        &self,
        request: &v1::WriteRequest,
        updates: &Updates<'_>,
    ) -> Result<v1::WriteResponse, Box<Status>> {
        let refuse = |fault: Fault| Box::new(fault.status());
        self.is_ours(request.device_id).map_err(refuse)?;
        let role = role_name(&request.role, request.role_id);
        let arbitration = look(&self.arbitration);
        arbitration.check(&role, election(request.election_id.as_ref())).map_err(refuse)?;
        let mut program = lock(&self.program);
        let mut host = lock(&self.host);
        Self::bound(&mut program, &host).map_err(refuse)?;
        let atomicity = Atomicity::try_from(request.atomicity).map_err(|_| {
            refuse(fault!(InvalidArgument, "{} is no atomicity", request.atomicity))
        })?;
        if updates.len() > UPDATES_MAX {
            return Err(refuse(fault!(
                ResourceExhausted,
                "{} updates in one request; {UPDATES_MAX} is the most",
                updates.len()
            )));
        }
        let rights = arbitration.rights(&role);
        let role = (role.as_str(), &rights);
        let results = write(&mut program, &mut host, updates, role, atomicity).map_err(refuse)?;
        let done = results.iter().filter(|r| r.is_ok()).count();
        if done > 0 {
            Self::keep_batch(&mut program, &mut host, updates, &results);
            drop(host);
            drop(program);
            self.switch.sync();
            self.flush();
            self.switch.note_change("p4runtime", "p4_write", "modify", || {
                format!("{done} updates of the role \"{}\"", role.0)
            });
        }
        drop(arbitration);
        batch(&results).map(|()| v1::WriteResponse {})
    }

    /// Lets the switch catch up with what was written, for whoever has answered and has the time.
    pub fn settle(&self) {
        self.switch.advance();
    }

    /// `Read`
    pub fn read(&self, request: &v1::ReadRequest) -> Result<Vec<v1::Entity>, Fault> {
        self.is_ours(request.device_id)?;
        if request.entities.len() > ASKED_MAX {
            return Err(fault!(
                ResourceExhausted,
                "{} entities are asked for; {ASKED_MAX} is the most",
                request.entities.len()
            ));
        }
        let rights = look(&self.arbitration).rights(&request.role);
        let mut program = lock(&self.program);
        let mut host = lock(&self.host);
        Self::bound(&mut program, &host)?;
        let now_ns = host.switch().now_ns();
        let Program { committed, digests, .. } = &*program;
        let Some(committed) = committed else {
            return Err(fault!(Internal, "the pipeline is gone"));
        };
        let (control, plane) = host.parts();
        let mut reading = Reading {
            schema: &committed.schema,
            control,
            plane,
            digests,
            role: &request.role,
            rights: &rights,
            now_ns,
            out: Vec::new(),
        };
        for asked in &request.entities {
            entity::read(&mut reading, asked)?;
        }
        Ok(reading.out)
    }

    /// `SetForwardingPipelineConfig`
    #[allow(deprecated, reason = "old clients number roles")]
    pub fn set_pipeline(
        &self,
        request: &v1::SetForwardingPipelineConfigRequest,
    ) -> Result<v1::SetForwardingPipelineConfigResponse, Fault> {
        self.is_ours(request.device_id)?;
        let role = role_name(&request.role, request.role_id);
        let id = election(request.election_id.as_ref());
        {
            let arbitration = look(&self.arbitration);
            arbitration.check(&role, id)?;
            if !role.is_empty() && !arbitration.config(&role).is_some_and(|c| c.pushes) {
                return Err(fault!(
                    PermissionDenied,
                    "pipelines are for the role without a name, not for \"{role}\"; can_push_pipeline in its \
                     role.config lets it push"
                ));
            }
        }
        let action = match Action::try_from(request.action) {
            Ok(Action::Unspecified) | Err(_) => {
                return Err(fault!(InvalidArgument, "{} is no action", request.action));
            }
            Ok(action) => action,
        };
        let pushed = match (action, &request.config) {
            (Action::Commit, Some(_)) => {
                return Err(fault!(
                    InvalidArgument,
                    "COMMIT is for what was saved, and has no config of its own"
                ));
            }
            (Action::Commit, None) => None,
            (_, None) => return Err(fault!(InvalidArgument, "the request has no config")),
            // Nothing is locked while a program is compiled.
            (_, Some(config)) => Some(self.built(config)?),
        };
        // The primary may have changed meanwhile.
        let arbitration = look(&self.arbitration);
        arbitration.check(&role, id)?;
        let mut program = lock(&self.program);
        match (action, pushed) {
            (Action::Verify, _) => {}
            (Action::VerifyAndSave, Some(pushed)) => program.saved = Some(pushed),
            (Action::VerifyAndCommit, Some((lowered, config))) => {
                self.replace(&mut program, lowered, config)?;
            }
            (Action::ReconcileAndCommit, Some((lowered, config))) => {
                self.reconcile(&mut program, lowered, config)?;
            }
            _ => {
                let saved = program.saved.take();
                let (lowered, config) = saved.ok_or_else(|| {
                    fault!(FailedPrecondition, "no pipeline is saved; VERIFY_AND_SAVE saves one")
                })?;
                self.replace(&mut program, lowered, config)?;
            }
        }
        if !matches!(action, Action::Verify | Action::VerifyAndSave) {
            Self::keep_all(&mut program, &mut lock(&self.host));
        }
        drop(program);
        self.flush();
        Ok(v1::SetForwardingPipelineConfigResponse {})
    }

    /// What was pushed, compiled and compared with its P4Info.
    fn built(
        &self,
        config: &v1::ForwardingPipelineConfig,
    ) -> Result<(Lowered, v1::ForwardingPipelineConfig), Fault> {
        let bytes = config::unwrapped(&config.p4_device_config);
        let pushed = config::program(&bytes)?;
        let Some(own) = &config.p4info else {
            return Err(fault!(InvalidArgument, "the config has no P4Info"));
        };
        let Built { lowered, .. } = config::build(pushed, own, Limits::running(self.workers))?;
        let schema = Schema::bind(own, &lowered.names, &lowered.program)?;
        let refs = reference::bind(own, &schema)?;
        let entries = lowered.entries.iter().map(|(table, entry)| (*table, entry));
        entity::table::own_keep_to(&refs, &schema, &lowered.program, entries)?;
        Ok((lowered, config.clone()))
    }

    fn replace(
        &self,
        program: &mut Program,
        lowered: Lowered,
        config: v1::ForwardingPipelineConfig,
    ) -> Result<(), Fault> {
        let info = config.p4info.clone().unwrap_or_default();
        let schema = Schema::bind(&info, &lowered.names, &lowered.program)?;
        let refs = reference::bind(&info, &schema)?;
        let mut host = lock(&self.host);
        host.replace(lowered).map_err(|e| Fault::new(Code::Internal, e))?;
        program.digests.clear();
        self.commit(program, config, (schema, refs), host.generation());
        host.switch().note_change("p4runtime", "p4_program", "modify", || {
            "SetForwardingPipelineConfig".to_owned()
        });
        Ok(())
    }

    fn reconcile(
        &self,
        program: &mut Program,
        lowered: Lowered,
        config: v1::ForwardingPipelineConfig,
    ) -> Result<(), Fault> {
        let info = config.p4info.clone().unwrap_or_default();
        let strings = program.committed.as_ref().map(|c| c.schema.strings.clone());
        let strings = strings.unwrap_or_default();
        let schema = Schema::bind_after(&info, &lowered.names, &lowered.program, &strings)?;
        let refs = reference::bind(&info, &schema)?;
        let mut host = lock(&self.host);
        host.reconcile(lowered)?;
        program.digests.retain(|id, _| schema.digests.contains_key(id));
        self.commit(program, config, (schema, refs), host.generation());
        host.switch().note_change("p4runtime", "p4_program", "modify", || {
            "SetForwardingPipelineConfig, reconciled".to_owned()
        });
        Ok(())
    }

    fn commit(
        &self,
        program: &mut Program,
        config: v1::ForwardingPipelineConfig,
        (schema, references): (Schema, References),
        generation: u64,
    ) {
        *change(&self.headers) = Arc::new(Headers::of(&schema));
        program.lists.clear();
        program.references = None;
        let started = false;
        program.committed = Some(Committed { config, schema, references, generation, started });
    }

    /// `GetForwardingPipelineConfig`
    pub fn pipeline(
        &self,
        request: v1::GetForwardingPipelineConfigRequest,
    ) -> Result<v1::GetForwardingPipelineConfigResponse, Fault> {
        use v1::get_forwarding_pipeline_config_request::ResponseType as R;
        self.is_ours(request.device_id)?;
        let wanted = R::try_from(request.response_type).map_err(|_| {
            fault!(InvalidArgument, "{} is no response type", request.response_type)
        })?;
        let program = lock(&self.program);
        let committed = program.committed.as_ref().ok_or_else(|| {
            fault!(
                FailedPrecondition,
                "no forwarding pipeline config is set; SetForwardingPipelineConfig pushes one"
            )
        })?;
        let whole = &committed.config;
        let info = matches!(wanted, R::All | R::P4infoAndCookie);
        let device = matches!(wanted, R::All | R::DeviceConfigAndCookie);
        let config = v1::ForwardingPipelineConfig {
            p4info: whole.p4info.clone().filter(|_| info),
            p4_device_config: if device { whole.p4_device_config.clone() } else { Vec::new() },
            cookie: whole.cookie,
        };
        Ok(v1::GetForwardingPipelineConfigResponse { config: Some(config) })
    }

    /// A client has opened a stream.
    pub fn open(&self) -> (StreamId, Receiver<Told>) {
        lock(&self.streams).open()
    }

    fn tell(&self, notices: Vec<Notice>) {
        let mut streams = lock(&self.streams);
        for Notice { to, update } in notices {
            streams.answer(to, Update::Arbitration(update));
        }
    }

    /// A stream has ended.
    pub fn close(&self, stream: StreamId) {
        let mut arbitration = change(&self.arbitration);
        let notices = arbitration.leave(stream);
        lock(&self.streams).close(stream);
        self.tell(notices);
    }

    /// A message of a stream. On an error the stream is to end.
    pub fn message(
        &self,
        stream: StreamId,
        message: v1::StreamMessageRequest,
    ) -> Result<(), Fault> {
        use v1::stream_message_request::Update as U;
        match message.update {
            Some(U::Arbitration(said)) => {
                self.is_ours(said.device_id)?;
                let mut arbitration = change(&self.arbitration);
                let notices = arbitration.update(stream, &said)?;
                self.tell(notices);
            }
            Some(U::Packet(packet)) => {
                if let Err(fault) = self.packet_out(stream, &packet) {
                    let details = v1::PacketOutError { packet_out: Some(packet) };
                    self.stream_error(stream, fault, v1::stream_error::Details::PacketOut(details));
                }
            }
            Some(U::DigestAck(ack)) => {
                if let Err(fault) = self.primary(stream) {
                    let details = v1::DigestListAckError { digest_list_ack: Some(ack) };
                    let details = v1::stream_error::Details::DigestListAck(details);
                    self.stream_error(stream, fault, details);
                } else {
                    lock(&self.program).lists.acknowledge(ack.digest_id, ack.list_id);
                }
            }
            Some(U::Other(other)) => {
                let fault = fault!(
                    Unimplemented,
                    "messages of the type \"{}\" are not known here",
                    other.type_url
                );
                let details = v1::StreamOtherError { other: Some(other) };
                self.stream_error(stream, fault, v1::stream_error::Details::Other(details));
            }
            None => {
                return Err(fault!(InvalidArgument, "the message of the stream is empty"));
            }
        }
        Ok(())
    }

    fn stream_error(&self, stream: StreamId, fault: Fault, details: v1::stream_error::Details) {
        let error = v1::StreamError {
            canonical_code: fault.code as i32,
            message: fault.text,
            space: String::new(),
            code: 0,
            details: Some(details),
        };
        if !lock(&self.streams).notify(stream, Update::Error(error)) {
            self.count_lost(1);
        }
    }

    fn primary(&self, stream: StreamId) -> Result<(), Fault> {
        match look(&self.arbitration).standing(stream) {
            Some((_, true)) => Ok(()),
            Some((role, false)) => Err(fault!(
                PermissionDenied,
                "this stream is not the primary of the role \"{role}\""
            )),
            None => Err(fault!(
                PermissionDenied,
                "this stream has not arbitrated; send a MasterArbitrationUpdate first"
            )),
        }
    }

    fn packet_out(&self, stream: StreamId, packet: &v1::PacketOut) -> Result<(), Fault> {
        self.primary(stream)?;
        let headers = look(&self.headers).clone();
        let bytes = headers.packet_out(packet)?;
        let Some(cpu) = &self.cpu else {
            return Err(fault!(FailedPrecondition, "this switch has no CPU port"));
        };
        match cpu.inject_bytes(&bytes) {
            true => Ok(()),
            false => Err(fault!(ResourceExhausted, "too many packets wait for the switch")),
        }
    }

    fn count_lost(&self, n: u64) {
        self.switch.tally("p4runtime_stream_lost", n);
    }

    /// Notifies all primaries.
    fn notify(&self, update: &Update) {
        let arbitration = look(&self.arbitration);
        let mut streams = lock(&self.streams);
        let mut lost = 0;
        for (role, stream) in arbitration.primaries() {
            if let (Update::Packet(packet), Some(config)) = (update, arbitration.config(role))
                && !config.takes(packet)
            {
                continue;
            }
            if !streams.notify(stream, update.clone()) {
                lost += 1;
            }
        }
        drop(streams);
        drop(arbitration);
        if lost > 0 {
            self.count_lost(lost);
        }
    }

    /// A frame has come out of the CPU port.
    pub fn packet_in(&self, bytes: &[u8]) {
        let headers = look(&self.headers).clone();
        match headers.packet_in(bytes) {
            Some(packet) => self.notify(&Update::Packet(packet)),
            None => self.switch.tally("p4runtime_packet_in_short", 1),
        }
    }

    /// A message of the switch: a digest.
    pub fn switch_message(&self, message: Message) {
        let Message::Digest { digest, args, .. } = message else { return };
        let list = {
            let mut program = lock(&self.program);
            let now_ns = self.switch.now_ns();
            let Program { committed, digests, lists, .. } = &mut *program;
            let Some(committed) = committed else { return };
            let known = committed.schema.digests.values().find(|d| d.digest == digest);
            let Some(known) = known else { return };
            let Some(config) = digests.get(&known.id) else { return };
            lists.add(known, config, args, now_ns)
        };
        if let Some(list) = list {
            self.notify(&Update::Digest(list));
        }
    }

    /// Waits for messages of the switch, at most so long, and does what is due then.
    pub fn take_messages(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            match self.switch.next_message(left) {
                Some(message) => self.switch_message(message),
                None => break,
            }
        }
        self.tick();
    }

    /// Takes what comes out of the CPU port within so long.
    pub fn take_packets(&self, patience: Duration) {
        match self.cpu.as_ref() {
            Some(cpu) => {
                let frame = cpu.take_within(patience);
                frame.iter().for_each(|frame| self.packet_in(frame.data()));
            }
            None => std::thread::sleep(patience),
        }
    }

    /// What is due now and then: lists of digests, entries that were idle, ports' links.
    pub fn tick(&self) {
        let (lists, idle) = {
            let mut program = lock(&self.program);
            let mut host = lock(&self.host);
            host.follow_ports();
            host.follow_queues();
            let now_ns = host.switch().now_ns();
            let idle = host.idle();
            let Program { committed, digests, lists, .. } = &mut *program;
            let Some(committed) = committed else { return };
            let schema = &committed.schema;
            let known = |id: u32| Some((schema.digests.get(&id)?, *digests.get(&id)?));
            let due = lists.due(known, now_ns);
            let control = host.control();
            let entries = idle.iter().filter_map(|(table, entry)| {
                let t = schema.tables.get(schema.table_ids.get(table)?)?;
                let entry = control.pipeline.entries(*table).get(*entry)?;
                // Which entry it is, and not what it does.
                let told = entity::table::told(schema, control, t, entry);
                Some(v1::TableEntry { action: None, ..told })
            });
            let entries: Vec<v1::TableEntry> = entries.collect();
            (due, (entries, i64::try_from(now_ns).unwrap_or(i64::MAX)))
        };
        for list in lists {
            self.notify(&Update::Digest(list));
        }
        let (table_entry, timestamp) = idle;
        if !table_entry.is_empty() {
            let told = v1::IdleTimeoutNotification { table_entry, timestamp };
            self.notify(&Update::IdleTimeoutNotification(told));
        }
    }

    /// How many streams are open.
    pub fn connected(&self) -> usize {
        lock(&self.streams).len()
    }

    /// Lets go of all streams.
    pub fn end(&self) {
        lock(&self.streams).close_all();
    }

    /// Ends a stream with a status.
    pub fn end_stream(&self, stream: StreamId, fault: &Fault) {
        lock(&self.streams).end(stream, fault.status());
    }
}

/// What a write asks for.
enum Updates<'a> {
    Messages(&'a [v1::Update]),
    Encoded(&'a wire::Request<'a>),
}

impl Updates<'_> {
    fn len(&self) -> usize {
        match self {
            Updates::Messages(updates) => updates.len(),
            Updates::Encoded(request) => request.len(),
        }
    }
}

/// Does a batch: what became of each update.
fn write(
    program: &mut Program,
    host: &mut Host,
    asked: &Updates<'_>,
    (role, rights): (&str, &Rights),
    atomicity: Atomicity,
) -> Result<Vec<Result<(), Fault>>, Fault> {
    let now_ns = host.switch().now_ns();
    let Program { committed, digests, references, .. } = program;
    let Some(committed) = committed else {
        return Err(fault!(Internal, "the pipeline is gone"));
    };
    let of = (host.generation(), host.edits());
    let (control, _) = host.parts();
    let (schema, refs) = (&committed.schema, &committed.references);
    let index = references.take().filter(|index| index.of == of);
    *references = (!refs.is_empty())
        .then(|| index.unwrap_or_else(|| entity::referring::index(refs, schema, control, of)));
    //= p4runtime-1.5.0 §11: a batch goes on at an error, or is undone as a whole; what the data plane sees of the latter is all or
    //= nothing.
    let whole = atomicity != Atomicity::ContinueOnError;
    let kept = whole.then(|| (control.keep(), digests.clone()));
    let mut writing = Writing {
        schema,
        control: &mut *control,
        digests: &mut *digests,
        references: references.as_mut().map(|index| (refs, index)),
        role,
        rights,
        now_ns,
        updates: Vec::with_capacity(asked.len()),
        effects: Vec::new(),
    };
    let mut results: Vec<Result<(), Fault>> = Vec::with_capacity(asked.len());
    let mut failed = false;
    let mut known = plain::Known::default();
    for n in 0..asked.len() {
        if failed && whole {
            results.push(Err(fault!(Aborted, "an update before it failed")));
            continue;
        }
        let result = match asked {
            Updates::Messages(updates) => entity::write(&mut writing, &updates[n]),
            Updates::Encoded(request) => match request.plain(n) {
                Some(entry) if plain::insert(&mut writing, &mut known, &entry) => Ok(()),
                _ => entity::write(&mut writing, &request.update(n)),
            },
        };
        failed |= result.is_err();
        results.push(result);
    }
    let Writing { updates, effects, .. } = writing;
    match kept {
        Some((kept, digests_kept)) if failed => {
            control.restore(kept);
            *digests = digests_kept;
            *references = None;
            for result in results.iter_mut().filter(|r| r.is_ok()) {
                *result = Err(fault!(Aborted, "another update of the batch failed"));
            }
            host.apply(&[]).map_err(|e| Fault::new(Code::Internal, e))?;
            return Ok(results);
        }
        Some((kept, _)) => control.let_go(kept),
        None => {}
    }
    let done = host.apply_and(&updates, |plane| {
        effects.into_iter().for_each(|effect| effect.happen(plane));
    });
    done.map_err(|e| fault!(Internal, "the switch does not take what its program has: {e}"))?;
    Ok(results)
}

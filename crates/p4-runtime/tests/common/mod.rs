//! A device of a program on a switch without ports.
#![allow(dead_code, reason = "each test uses its part")]

use p4::limits::Limits;
use p4_runtime::config::{Built, EMPTY, compile};
use p4_runtime::device::{Device, Options};
use p4_runtime::host::Host;
use p4_runtime::keeping::{Change, Image, Keeper};
use p4_runtime::proto::{info, v1};
use p4_runtime::server::Server;
use port::memory::Handle;
use std::sync::{Arc, Mutex};
use switch::{EngineKind, Switch};

pub struct Bed {
    pub device: Arc<Device>,
    pub host: Arc<Mutex<Host>>,
    pub switch: Switch,
    pub info: info::P4Info,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.switch.stop();
    }
}

/// With a far end of the CPU port, if one is given.
pub fn bed_with(program: &str, cpu: Option<Handle>, engine: EngineKind) -> Bed {
    let Built { lowered, info } = compile(program, Limits::default()).map_err(|e| e.text).unwrap();
    let config = |program| switch::Config {
        program,
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 100_000,
        engine,
        validate: None,
    };
    let host = Host::begin(lowered, config, Switch::start).unwrap();
    let switch = host.switch().clone();
    let host = Arc::new(Mutex::new(host));
    let device = Device::new(Options { device_id: 1 }, host.clone(), cpu);
    let bytes = prost::Message::encode_to_vec(&info);
    device.started_with(&bytes, program).map_err(|e| e.text).unwrap();
    Bed { device: Arc::new(device), host, switch, info }
}

pub fn bed(program: &str) -> Bed {
    bed_with(program, None, EngineKind::Interp)
}

pub fn arbitration(election: Option<u128>) -> v1::StreamMessageRequest {
    use v1::stream_message_request::Update;
    let election_id = election.map(|id| v1::Uint128 { high: (id >> 64) as u64, low: id as u64 });
    let update =
        v1::MasterArbitrationUpdate { device_id: 1, role: None, election_id, status: None };
    v1::StreamMessageRequest { update: Some(Update::Arbitration(update)) }
}

pub fn write(kind: v1::update::Type, entity: v1::entity::Entity) -> v1::WriteRequest {
    batch(vec![(kind, entity)])
}

pub fn batch(updates: Vec<(v1::update::Type, v1::entity::Entity)>) -> v1::WriteRequest {
    let updates = updates.into_iter().map(|(kind, entity)| v1::Update {
        r#type: kind as i32,
        entity: Some(v1::Entity { entity: Some(entity) }),
    });
    v1::WriteRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        updates: updates.collect(),
        ..v1::WriteRequest::default()
    }
}

pub fn serve(device: &Arc<Device>) -> Server {
    let services = grpc::Services::default();
    Server::start("127.0.0.1:0".parse().unwrap(), None, device.clone(), services).unwrap()
}

/// What was told to a keeper so far.
#[derive(Clone, Default)]
pub struct Mirror(pub Arc<Mutex<(Image, usize)>>);

impl Keeper for Mirror {
    fn keep(&mut self, changes: &[Change]) {
        let mut held = self.0.lock().unwrap();
        held.1 += 1;
        for (key, value) in changes {
            match value {
                Some(value) => drop(held.0.insert(key.clone(), value.clone())),
                None => drop(held.0.remove(key)),
            }
        }
    }
}

impl Mirror {
    /// What is kept of a device from now on.
    pub fn of(device: &Device) -> Mirror {
        let mirror = Mirror::default();
        let begun = device.keep(|image| {
            mirror.0.lock().unwrap().0 = image.clone();
            Ok::<_, ()>((Box::new(mirror.clone()) as Box<dyn Keeper>, Arc::new(|| {}) as _))
        });
        begun.unwrap();
        mirror
    }

    /// All that is kept now.
    pub fn image(&self) -> Image {
        self.0.lock().unwrap().0.clone()
    }

    /// How many transactions there were.
    pub fn records(&self) -> usize {
        self.0.lock().unwrap().1
    }

    /// What is kept is what there is, and makes the same of a device that has nothing.
    pub fn check(&self, device: &Device) -> Bed {
        let image = self.image();
        let now = device.image(&|| {});
        assert!(image == now, "{:#?}", differing(&image, &now));
        let empty = bed(EMPTY);
        empty.device.put_back(&image).map_err(|e| e.text).unwrap();
        let again = empty.device.image(&|| {});
        assert!(image == again, "{:#?}", differing(&image, &again));
        empty
    }
}

/// Keys whose values differ, with both.
fn differing(one: &Image, other: &Image) -> Vec<(String, String, String)> {
    let keys: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let told = |value: Option<&Box<[u8]>>| match value {
        Some(value) => format!("{:?}", <v1::Entity as prost::Message>::decode(&value[..])),
        None => "nothing".to_owned(),
    };
    let differs = keys.into_iter().filter(|key| one.get(*key) != other.get(*key));
    differs.map(|key| (format!("{key:02x?}"), told(one.get(key)), told(other.get(key)))).collect()
}

impl Bed {
    /// A primary with the election id 1.
    pub fn primary(&self) -> tokio::sync::mpsc::Receiver<p4_runtime::streams::Told> {
        let (stream, told) = self.device.open();
        self.device.message(stream, arbitration(Some(1))).unwrap();
        told
    }

    pub fn id(&self, name: &str) -> u32 {
        let i = &self.info;
        let all = i.tables.iter().map(|t| &t.preamble);
        let all = all.chain(i.actions.iter().map(|a| &a.preamble));
        let all = all.chain(i.action_profiles.iter().map(|a| &a.preamble));
        let all = all.chain(i.counters.iter().map(|a| &a.preamble));
        let all = all.chain(i.meters.iter().map(|a| &a.preamble));
        let all = all.chain(i.registers.iter().map(|a| &a.preamble));
        let all = all.chain(i.value_sets.iter().map(|a| &a.preamble));
        let all = all.chain(i.digests.iter().map(|a| &a.preamble));
        let found = all.flatten().find(|p| p.name == name || p.alias == name);
        found.unwrap_or_else(|| panic!("no {name}")).id
    }

    pub fn read(&self, entity: v1::entity::Entity) -> Vec<v1::entity::Entity> {
        let request = v1::ReadRequest {
            device_id: 1,
            role: String::new(),
            entities: vec![v1::Entity { entity: Some(entity) }],
        };
        let told = self.device.read(&request).map_err(|e| e.text).unwrap();
        told.into_iter().filter_map(|e| e.entity).collect()
    }

    /// The code and text that an update is refused with.
    pub fn refused(&self, request: &v1::WriteRequest) -> (i32, String) {
        let bytes = prost::Message::encode_to_vec(request);
        let status = self.device.write_encoded(&bytes).unwrap_err();
        let told: p4_runtime::proto::rpc::Status =
            prost::Message::decode(status.details()).unwrap();
        let wrong = told.details.iter().map(|d| {
            let error: v1::Error = prost::Message::decode(&d.value[..]).unwrap();
            (error.canonical_code, error.message)
        });
        wrong.into_iter().find(|e| e.0 != 0).unwrap()
    }

    pub fn done(&self, request: &v1::WriteRequest) {
        let bytes = prost::Message::encode_to_vec(request);
        self.device.write_encoded(&bytes).map_err(|e| e.message().to_owned()).unwrap();
    }
}

/// An action with one parameter, or none.
pub fn action(id: u32, param: Option<&[u8]>) -> v1::TableAction {
    let params = param.iter().map(|value| v1::action::Param { param_id: 1, value: value.to_vec() });
    let action = v1::Action { action_id: id, params: params.collect() };
    v1::TableAction { r#type: Some(v1::table_action::Type::Action(action)) }
}

pub fn exact(field: u32, value: &[u8]) -> v1::FieldMatch {
    let value = v1::field_match::Exact { value: value.to_vec() };
    let told = Some(v1::field_match::FieldMatchType::Exact(value));
    v1::FieldMatch { field_id: field, field_match_type: told }
}

pub fn lpm(field: u32, value: &[u8], prefix_len: i32) -> v1::FieldMatch {
    let value = v1::field_match::Lpm { value: value.to_vec(), prefix_len };
    let told = Some(v1::field_match::FieldMatchType::Lpm(value));
    v1::FieldMatch { field_id: field, field_match_type: told }
}

pub fn ternary(field: u32, value: &[u8], mask: &[u8]) -> v1::FieldMatch {
    let value = v1::field_match::Ternary { value: value.to_vec(), mask: mask.to_vec() };
    let told = Some(v1::field_match::FieldMatchType::Ternary(value));
    v1::FieldMatch { field_id: field, field_match_type: told }
}

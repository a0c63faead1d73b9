//! The body of the fuzz target `p4runtime`, which the unit tests run too. Hidden: only tests and the fuzz target call it.

use crate::config::Built;
use crate::device::{Device, Options};
use crate::host::Host;
use crate::proto::{info, rpc, v1};
use crate::reference;
use crate::schema::Schema;
use p4::control::Control;
use p4::lower::Lowered;
use prost::Message;
use std::sync::{Arc, Mutex};
use switch::{EngineKind, Switch};

/// What decodes encodes and decodes to the same.
fn round<M: Message + Default + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(message) = M::decode(data) {
        let again = M::decode(&message.encode_to_vec()[..]).expect("what was encoded decodes");
        // Numbers that are not equal to themselves are not in these messages.
        assert_eq!(message, again);
    }
}

/// Any bytes as any message; as a write and a P4Info they are done or refused.
///
/// # Panics
/// If what was written is not read back.
pub fn fuzz(program: &Lowered, info: &info::P4Info, data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    match first % 16 {
        8 => round::<v1::GetForwardingPipelineConfigRequest>(rest),
        9 => round::<v1::CapabilitiesRequest>(rest),
        10 => round::<v1::StreamMessageResponse>(rest),
        11 => round::<v1::ReadResponse>(rest),
        12 => {
            round::<v1::Error>(rest);
            round::<rpc::Status>(rest);
        }
        13 => {
            let any = |type_url: &str| prost_types::Any {
                type_url: type_url.to_owned(),
                value: rest.to_vec(),
            };
            // Read or refused.
            let _ = crate::role::Config::read(Some(&any("x/stratum.P4RoleConfig")));
        }
        0 => round::<v1::WriteRequest>(rest),
        1 => round::<v1::ReadRequest>(rest),
        2 => round::<v1::StreamMessageRequest>(rest),
        3 => round::<v1::SetForwardingPipelineConfigRequest>(rest),
        4 => {
            round::<info::P4Info>(rest);
            if let Ok(other) = info::P4Info::decode(rest) {
                // Bound or refused.
                let _ = Schema::bind(&other, &program.names, &program.program);
            }
        }
        5 => {
            // Read as a configuration or refused.
            let _ = crate::config::program(&crate::config::unwrapped(rest));
        }
        _ => writes(program, info, rest),
    }
}

/// A device of a program, with a stream that is primary.
///
/// # Panics
/// If the program is not good, or the switch does not start.
pub fn device(text: &str, built: Built) -> Arc<Device> {
    let config = |program| switch::Config {
        program,
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: EngineKind::Interp,
        validate: None,
    };
    let host = Host::begin(built.lowered, config, Switch::start).expect("a switch starts");
    let device = Device::new(Options { device_id: 1 }, Arc::new(Mutex::new(host)), None);
    let info = built.info.encode_to_vec();
    device.started_with(&info, text).expect("the program fits its own P4Info");
    let (stream, _) = device.open();
    let said = v1::MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        ..v1::MasterArbitrationUpdate::default()
    };
    let said = Some(v1::stream_message_request::Update::Arbitration(said));
    let said = v1::StreamMessageRequest { update: said };
    device.message(stream, said).expect("the first client is primary");
    Arc::new(device)
}

/// All that a device tells of its state, without what it counts.
fn all(device: &Device) -> Vec<v1::Entity> {
    use v1::entity::Entity as E;
    use v1::packet_replication_engine_entry::Type as Pre;
    let pre = |of| {
        let of = v1::PacketReplicationEngineEntry { r#type: Some(of) };
        E::PacketReplicationEngineEntry(of)
    };
    let entities = [
        E::TableEntry(v1::TableEntry::default()),
        E::ActionProfileMember(v1::ActionProfileMember::default()),
        E::ActionProfileGroup(v1::ActionProfileGroup::default()),
        E::MeterEntry(v1::MeterEntry::default()),
        E::RegisterEntry(v1::RegisterEntry::default()),
        E::ValueSetEntry(v1::ValueSetEntry::default()),
        pre(Pre::MulticastGroupEntry(v1::MulticastGroupEntry::default())),
        pre(Pre::CloneSessionEntry(v1::CloneSessionEntry::default())),
    ];
    let entities = entities.map(|entity| v1::Entity { entity: Some(entity) }).to_vec();
    let request = v1::ReadRequest { device_id: 1, entities, ..v1::ReadRequest::default() };
    device.read(&request).expect("all may be read")
}

/// Any bytes as a request of a running device: done or refused, and a refused batch that is whole changes nothing.
///
/// # Panics
/// If it does.
pub fn requests(device: &Device, data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let id = Some(v1::Uint128 { high: 0, low: 1 });
    match first % 5 {
        0 => {
            let Ok(request) = v1::WriteRequest::decode(rest) else { return };
            let request = v1::WriteRequest { device_id: 1, election_id: id, ..request };
            let before = (request.atomicity != 0).then(|| all(device));
            if device.write(&request).is_err() {
                before.iter().for_each(|before| assert_eq!(all(device), *before));
            }
            let before = (request.atomicity != 0).then(|| all(device));
            if device.write_encoded(&request.encode_to_vec()).is_err() {
                before.iter().for_each(|before| assert_eq!(all(device), *before));
            }
        }
        1 => {
            let Ok(request) = v1::ReadRequest::decode(rest) else { return };
            let told = device.read(&v1::ReadRequest { device_id: 1, ..request });
            told.err().iter().for_each(|fault| assert!(!fault.text.is_empty()));
        }
        2 => {
            let Ok(message) = v1::StreamMessageRequest::decode(rest) else { return };
            let (stream, _told) = device.open();
            // Taken, or the stream is to end.
            let _ = device.message(stream, message);
            device.close(stream);
        }
        3 => {
            let Ok(request) = v1::SetForwardingPipelineConfigRequest::decode(rest) else { return };
            let action = v1::set_forwarding_pipeline_config_request::Action::Verify as i32;
            let request = v1::SetForwardingPipelineConfigRequest {
                device_id: 1,
                election_id: id,
                action,
                ..request
            };
            // What is verified changes nothing.
            let before = all(device);
            let _ = device.set_pipeline(&request);
            assert_eq!(all(device), before);
        }
        _ => {
            let Ok(request) = v1::GetForwardingPipelineConfigRequest::decode(rest) else { return };
            let _ = device.pipeline(request);
        }
    }
}

fn writes(program: &Lowered, info: &info::P4Info, data: &[u8]) {
    use crate::entity::{Writing, referring, write};
    let Ok(request) = v1::WriteRequest::decode(data) else { return };
    let mut control = Control::new(program.clone()).expect("the program is good");
    let schema = Schema::bind(info, &program.names, &program.program).expect("its own P4Info");
    let mut digests = std::collections::BTreeMap::new();
    let refs = reference::bind(info, &schema).expect("its own P4Info");
    let mut index = referring::index(&refs, &schema, &control, (0, 0));
    for update in &request.updates {
        let kept = control.keep();
        let before = control.pipeline.contents().len();
        let mut writing = Writing {
            schema: &schema,
            control: &mut control,
            digests: &mut digests,
            references: (!refs.is_empty()).then_some((&refs, &mut index)),
            role: "",
            rights: &crate::role::Rights::default(),
            now_ns: 1,
            updates: Vec::new(),
            effects: Vec::new(),
        };
        let done = write(&mut writing, update);
        match done {
            Ok(()) => control.let_go(kept),
            Err(fault) => {
                assert!(!fault.text.is_empty());
                assert_eq!(control.pipeline.contents().len(), before, "{}", fault.text);
                control.restore(kept);
                index = referring::index(&refs, &schema, &control, (0, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::compile;
    use p4::limits::Limits;

    #[test]
    fn random_bytes_are_done_or_refused() {
        let text = include_str!("../../../filetests/p4/everything.p4");
        let built = compile(text, Limits::default()).expect("the program is good");
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..20_000 {
            let len = (next() % 64) as usize;
            let data: Vec<u8> = (0..len).map(|_| next() as u8).collect();
            fuzz(&built.lowered, &built.info, &data);
        }
    }

    /// Random bytes seldom are a message, so bytes of good ones are changed.
    #[test]
    fn changed_requests_are_done_or_refused() {
        let text = include_str!("../../../filetests/p4/everything.p4");
        let build = || compile(text, Limits::default()).expect("the program is good");
        let (device, info) = (device(text, build()), build().info);
        let find = |name: &str| {
            let tables = info.tables.iter().map(|t| &t.preamble);
            let mut all = tables.chain(info.actions.iter().map(|a| &a.preamble)).flatten();
            all.find(|p| p.name == name).expect("it is there").id
        };
        let (table_id, action_id) = (find("I.longest"), find("I.go"));
        let lpm = v1::field_match::Lpm { value: vec![10, 0, 0, 0], prefix_len: 8 };
        let lpm = Some(v1::field_match::FieldMatchType::Lpm(lpm));
        let params = vec![v1::action::Param { param_id: 1, value: vec![1] }];
        let action = v1::Action { action_id, params };
        let action = Some(v1::table_action::Type::Action(action));
        let entry = v1::TableEntry {
            table_id,
            r#match: vec![v1::FieldMatch { field_id: 1, field_match_type: lpm }],
            action: Some(v1::TableAction { r#type: action }),
            ..v1::TableEntry::default()
        };
        let entity =
            || Some(v1::Entity { entity: Some(v1::entity::Entity::TableEntry(entry.clone())) });
        let update = |kind: v1::update::Type| v1::Update { r#type: kind as i32, entity: entity() };
        let updates = [v1::update::Type::Insert, v1::update::Type::Modify].map(update).to_vec();
        let write = v1::WriteRequest { updates, atomicity: 1, ..v1::WriteRequest::default() };
        let read = v1::ReadRequest {
            entities: entity().into_iter().collect(),
            ..v1::ReadRequest::default()
        };
        let push = v1::SetForwardingPipelineConfigRequest {
            config: Some(v1::ForwardingPipelineConfig {
                p4info: Some(info.clone()),
                p4_device_config: b"parser".to_vec(),
                cookie: None,
            }),
            ..v1::SetForwardingPipelineConfigRequest::default()
        };
        let said = v1::stream_message_request::Update::Packet(v1::PacketOut::default());
        let said = v1::StreamMessageRequest { update: Some(said) };
        let good = [
            (0, write.encode_to_vec()),
            (1, read.encode_to_vec()),
            (2, said.encode_to_vec()),
            (3, push.encode_to_vec()),
            (4, vec![8, 1]),
        ];
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for n in 0..5_000 {
            let (kind, bytes) = &good[n % good.len()];
            let mut data = [&[*kind], &bytes[..]].concat();
            for _ in 0..next() % 4 {
                let at = 1 + (next() as usize) % (data.len() - 1).max(1);
                if let Some(byte) = data.get_mut(at) {
                    *byte = next() as u8;
                }
            }
            requests(&device, &data);
        }
    }
}

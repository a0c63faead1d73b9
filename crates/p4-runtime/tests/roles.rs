//! Roles whose config says what they may do.

#[allow(unreachable_pub)]
mod common;

use common::{Bed, action, bed, bed_with, exact, lpm, write};
use p4_runtime::proto::v1;
use p4_runtime::streams::Told;
use switch::EngineKind;
use tokio::sync::mpsc::Receiver;
use v1::entity::Entity as E;
use v1::update::Type;

const EVERYTHING: &str = include_str!("../../../filetests/p4/everything.p4");

/// `stratum.P4RoleConfig` as clients send it: a field's number and type, then what it holds.
fn config(exclusive: &[u32], shared: &[u32], flags: &[u8]) -> prost_types::Any {
    let mut value = Vec::new();
    for (tag, ids) in [(0x0a, exclusive), (0x12, shared)] {
        let mut packed = Vec::new();
        for id in ids {
            prost::encoding::encode_varint((*id).into(), &mut packed);
        }
        value.push(tag);
        prost::encoding::encode_varint(packed.len() as u64, &mut value);
        value.extend(packed);
    }
    flags.iter().for_each(|flag| value.extend([*flag, 1]));
    prost_types::Any { type_url: "type.googleapis.com/stratum.P4RoleConfig".to_owned(), value }
}

const TAKES_PACKETS: u8 = 0x20;
const PUSHES: u8 = 0x28;

fn primary(bed: &Bed, name: &str, config: Option<prost_types::Any>) -> Receiver<Told> {
    let (stream, told) = bed.device.open();
    let role = Some(v1::Role { name: name.to_owned(), config, ..v1::Role::default() });
    let update = v1::MasterArbitrationUpdate {
        device_id: 1,
        role,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        status: None,
    };
    let update = Some(v1::stream_message_request::Update::Arbitration(update));
    bed.device.message(stream, v1::StreamMessageRequest { update }).map_err(|e| e.text).unwrap();
    told
}

//= p4runtime-1.5.0 §5: a role with a config writes and reads what it lists, and what another role has alone nobody else.
#[test]
fn a_role_does_what_its_config_lists() {
    let bed = bed(EVERYTHING);
    let (exactly, longest, go) = (bed.id("exactly"), bed.id("longest"), bed.id("go"));
    let does = || Some(action(go, Some(&[1])));
    let of = |table_id, key| {
        E::TableEntry(v1::TableEntry {
            table_id,
            r#match: key,
            action: does(),
            ..v1::TableEntry::default()
        })
    };
    let one = || of(exactly, vec![exact(1, &[1]), exact(2, &[1])]);
    let other = || of(longest, vec![lpm(1, &[0x80, 0, 0, 0], 1)]);
    let _nameless = bed.primary();
    let _a = primary(&bed, "a", Some(config(&[exactly], &[], &[])));
    let _b = primary(&bed, "b", Some(config(&[], &[longest], &[PUSHES])));
    let _c = primary(&bed, "c", None);
    let by = |role: &str, entity: E| {
        let mut request = write(Type::Insert, entity);
        request.role = role.to_owned();
        request
    };
    let denied = |role: &str, entity: E| {
        let (code, text) = bed.refused(&by(role, entity));
        assert_eq!(code, 7, "{text}");
        text
    };
    bed.done(&by("a", one()));
    let text = denied("a", other());
    assert!(text.contains("`I.longest` is not for the role \"a\", as its role.config"), "{text}");
    bed.done(&by("b", other()));
    denied("b", one());
    denied("c", one());
    // What is shared is everybody's, and the role without a name does everything.
    let mut delete = by("c", other());
    delete.updates[0].r#type = Type::Delete as i32;
    bed.done(&delete);
    let mut modify = by("", one());
    modify.updates[0].r#type = Type::Modify as i32;
    bed.done(&modify);
    // Groups have no id that a config could list.
    let group =
        v1::packet_replication_engine_entry::Type::MulticastGroupEntry(v1::MulticastGroupEntry {
            multicast_group_id: 1,
            ..v1::MulticastGroupEntry::default()
        });
    let group = v1::PacketReplicationEngineEntry { r#type: Some(group) };
    denied("a", E::PacketReplicationEngineEntry(group));
    // Reads are filtered.
    let read = |role: &str| {
        let asked = E::TableEntry(v1::TableEntry { table_id: 0, ..v1::TableEntry::default() });
        let request = v1::ReadRequest {
            device_id: 1,
            role: role.to_owned(),
            entities: vec![v1::Entity { entity: Some(asked) }],
        };
        let told = bed.device.read(&request).map_err(|e| e.text).unwrap();
        let table = |e: v1::Entity| match e.entity {
            Some(E::TableEntry(e)) => e.table_id,
            other => panic!("{other:?}"),
        };
        let mut told: Vec<u32> = told.into_iter().map(table).collect();
        told.dedup();
        told
    };
    let fixed = bed.id("fixed");
    assert_eq!((read("a"), read("b"), read("c")), (vec![exactly], vec![], vec![fixed]));
    assert!(read("").contains(&exactly));
    // Who may push.
    let push = |role: &str| {
        let config = v1::ForwardingPipelineConfig {
            p4info: Some(bed.info.clone()),
            p4_device_config: EVERYTHING.as_bytes().to_vec(),
            cookie: None,
        };
        bed.device.set_pipeline(&v1::SetForwardingPipelineConfigRequest {
            device_id: 1,
            role: role.to_owned(),
            election_id: Some(v1::Uint128 { high: 0, low: 1 }),
            action: v1::set_forwarding_pipeline_config_request::Action::Verify as i32,
            config: Some(config),
            ..v1::SetForwardingPipelineConfigRequest::default()
        })
    };
    let text = push("a").unwrap_err().text;
    assert!(text.contains("can_push_pipeline"), "{text}");
    push("b").map_err(|e| e.text).unwrap();
}

#[test]
fn the_nameless_role_and_other_kinds_have_no_config() {
    let bed = bed(EVERYTHING);
    let said = |name: &str, config| {
        let (stream, _told) = bed.device.open();
        let role = Some(v1::Role { name: name.to_owned(), config, ..v1::Role::default() });
        let election_id = Some(v1::Uint128 { high: 0, low: 1 });
        let update = v1::MasterArbitrationUpdate { device_id: 1, role, election_id, status: None };
        let update = Some(v1::stream_message_request::Update::Arbitration(update));
        let done = bed.device.message(stream, v1::StreamMessageRequest { update });
        bed.device.close(stream);
        done.map_err(|fault| (fault.code as i32, fault.text))
    };
    let (code, text) = said("", Some(config(&[], &[], &[]))).unwrap_err();
    assert!(code == 3 && text.contains("give the role a name"), "{text}");
    let other = prost_types::Any { type_url: "x/pins.Y".to_owned(), value: Vec::new() };
    let (code, text) = said("a", Some(other)).unwrap_err();
    assert!(code == 3 && text.contains("stratum.P4RoleConfig is"), "{text}");
    said("a", Some(prost_types::Any::default())).unwrap();
}

#[test]
fn packets_go_to_roles_that_take_them() {
    let text = EVERYTHING.replace(
        "header h_t {",
        "@controller_header(\"packet_in\") header in_t { bit<16> port; }\nheader h_t {",
    );
    let bed = bed_with(&text, None, EngineKind::Interp);
    let mut nameless = bed.primary();
    let mut deaf = primary(&bed, "a", Some(config(&[], &[], &[])));
    let mut all = primary(&bed, "b", Some(config(&[], &[], &[TAKES_PACKETS])));
    // Field 3: metadata 1 is 7.
    let mut only = config(&[], &[], &[TAKES_PACKETS]);
    only.value.extend([0x1a, 5, 0x08, 1, 0x12, 1, 7]);
    let mut some = primary(&bed, "c", Some(only));
    let count = |told: &mut Receiver<Told>| {
        let mut packets = 0;
        while let Ok(Ok(message)) = told.try_recv() {
            use v1::stream_message_response::Update::Packet;
            packets += usize::from(matches!(message.update, Some(Packet(_))));
        }
        packets
    };
    for frame in [[0, 7, 1, 2], [0, 8, 1, 2], [0, 7, 3, 4]] {
        bed.device.packet_in(&frame);
    }
    let told = [&mut nameless, &mut deaf, &mut all, &mut some].map(count);
    assert_eq!(told, [3, 0, 3, 2]);
}

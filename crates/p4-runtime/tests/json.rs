//! bmv2's JSON as a device configuration: pushed with its P4Info, then written and read as any program.

#[allow(unreachable_pub)]
mod common;

use common::{action, bed, lpm, write};
use p4_runtime::config::{Program, build, compile};
use p4_runtime::proto::v1;
use v1::entity::Entity as E;
use v1::set_forwarding_pipeline_config_request::Action;
use v1::update::Type;

const ROUTER: &str = include_str!("../../../filetests/p4/router.p4");
const JSON: &str = include_str!("../../../filetests/p4/bmv2/router.json");
const SUMS: &str = include_str!("../../../filetests/p4/bmv2/sums.p4");

fn request(
    info: p4_runtime::proto::info::P4Info,
    config: &[u8],
    action: Action,
) -> v1::SetForwardingPipelineConfigRequest {
    v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        action: action as i32,
        config: Some(v1::ForwardingPipelineConfig {
            p4info: Some(info),
            p4_device_config: config.to_vec(),
            cookie: Some(v1::forwarding_pipeline_config::Cookie { cookie: 7 }),
        }),
        ..v1::SetForwardingPipelineConfigRequest::default()
    }
}

#[test]
fn json_is_pushed_written_and_read() {
    // The P4Info is the one of the program's text, as p4c would write it.
    let info = compile(ROUTER, p4::limits::Limits::default()).map_err(|e| e.text).unwrap().info;
    let mut bed = bed(SUMS);
    let _told = bed.primary();
    for kind in [Action::Verify, Action::VerifyAndCommit] {
        let pushed = bed.device.set_pipeline(&request(info.clone(), JSON.as_bytes(), kind));
        pushed.map_err(|e| e.text).unwrap();
    }
    bed.info = info.clone();
    let (routes, route) = (bed.id("I.routes"), bed.id("I.route"));
    let mut does = action(route, Some(&[3]));
    if let Some(v1::table_action::Type::Action(a)) = &mut does.r#type {
        a.params.push(v1::action::Param { param_id: 2, value: vec![10, 0, 0, 1] });
    }
    let entry = v1::TableEntry {
        table_id: routes,
        r#match: vec![lpm(1, &[10, 1, 0, 0], 16)],
        action: Some(does),
        ..v1::TableEntry::default()
    };
    bed.done(&write(Type::Insert, E::TableEntry(entry.clone())));
    let asked = v1::TableEntry { table_id: routes, ..v1::TableEntry::default() };
    assert_eq!(bed.read(E::TableEntry(asked.clone())), [E::TableEntry(entry.clone())]);
    // The text of the same program takes over all that is there.
    let again = request(info.clone(), ROUTER.as_bytes(), Action::ReconcileAndCommit);
    bed.device.set_pipeline(&again).map_err(|e| e.text).unwrap();
    assert_eq!(bed.read(E::TableEntry(asked)), [E::TableEntry(entry)]);
    // What was pushed is told as it was.
    let pipeline = bed
        .device
        .pipeline(v1::GetForwardingPipelineConfigRequest { device_id: 1, response_type: 0 });
    let config = pipeline.map_err(|e| e.text).unwrap().config.unwrap();
    assert_eq!(config.p4_device_config, ROUTER.as_bytes());
}

#[test]
fn wrong_json_is_refused_with_its_node() {
    let info = compile(ROUTER, p4::limits::Limits::default()).map_err(|e| e.text).unwrap().info;
    let bed = bed(SUMS);
    let _told = bed.primary();
    let wrong = JSON.replace("\"csum16\"", "\"md5\"");
    let refused = bed.device.set_pipeline(&request(info, wrong.as_bytes(), Action::Verify));
    assert_eq!(
        refused.unwrap_err().text,
        "p4_device_config, bmv2's JSON, calculations[0].algo: the algorithm `md5` is not known"
    );
    // A P4Info of another program does not fit.
    let other = request(bed.info.clone(), JSON.as_bytes(), Action::Verify);
    let text = bed.device.set_pipeline(&other).unwrap_err().text;
    assert!(text.starts_with("P4Info: the program has no table `I.ops`"), "{text}");
}

#[test]
fn what_the_json_leaves_out_comes_from_the_p4info() {
    let own = compile(SUMS, p4::limits::Limits::default()).map_err(|e| e.text).unwrap().info;
    let json = include_str!("../../../filetests/p4/bmv2/sums.json");
    let built = build(Program::Json(json), &own, p4::limits::Limits::default());
    let built = built.map_err(|e| e.text).unwrap().info;
    let sizes = |i: &p4_runtime::proto::info::P4Info| -> Vec<i32> {
        i.value_sets.iter().map(|v| v.size).collect()
    };
    assert_eq!(sizes(&built), sizes(&own));
    let ids = |i: &p4_runtime::proto::info::P4Info| -> Vec<u32> {
        i.tables.iter().flat_map(|t| &t.preamble).map(|p| p.id).collect()
    };
    assert_eq!(ids(&built), ids(&own));
}

/// JSON files of others with their P4Info as bytes (`NAME.json`, `NAME.p4info`), from a folder that the environment names:
/// each is compiled and bound.
#[test]
fn json_of_others_fits_its_p4info() {
    let Ok(folder) = std::env::var("BMV2_P4INFO") else { return };
    let mut wrong = Vec::new();
    for file in std::fs::read_dir(folder).unwrap().flatten() {
        let path = file.path();
        let Ok(bytes) = std::fs::read(path.with_extension("p4info")) else { continue };
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let info = prost::Message::decode(&bytes[..]).unwrap();
        let json = std::fs::read_to_string(&path).unwrap();
        let built = build(Program::Json(&json), &info, p4::limits::Limits::default());
        let bound = built.and_then(|b| {
            p4_runtime::schema::Schema::bind(&info, &b.lowered.names, &b.lowered.program)
        });
        if let Err(e) = bound {
            wrong.push(format!("{}: {}", path.display(), e.text));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

//! What `millrace p4 build` writes: a pipeline with its program behind it, which a client may push.

#[allow(unreachable_pub)]
mod common;

use common::bed;
use p4::built::{Refused, agrees, is_built, program_bytes, unpack};
use p4::limits::Limits;
use p4::lower::Lowered;
use p4::preprocess::Options;
use p4_runtime::code::Code;
use p4_runtime::config::{Program, build, compile, program};
use p4_runtime::proto::{info, v1};
use std::path::Path;

const PROGRAM: &str = include_str!("../../../filetests/p4/profiles.p4");

fn built() -> (Lowered, String) {
    p4::with_stack(|| {
        let path = Path::new("profiles.p4");
        let (mut c, packed) = p4::packed::pack(&Options::default(), path, PROGRAM);
        let lowered = p4::lower::lower(&c.program, &mut c.diagnostics).unwrap();
        let text = p4::built::text(lowered.clone(), &packed).unwrap();
        (lowered, text)
    })
}

#[test]
fn a_pipeline_has_its_program_behind_it() {
    let (lowered, text) = built();
    assert!(is_built(&text) && !is_built(PROGRAM), "{}", &text[..80]);
    assert_eq!(unpack(&text).unwrap().path(), Path::new("profiles.p4"));
    assert_eq!(agrees(&text, lowered.clone()), Ok(()));
    // It still is a pipeline's text.
    ir::text::pipeline(&text).unwrap();
    let changed = text.replacen("h.color = 119", "h.color = 118", 1);
    assert_ne!(changed, text);
    assert_eq!(agrees(&changed, lowered), Err(Refused::Differs));
    assert_eq!(unpack("; x\n"), Err(Refused::NoProgram));
    assert!(matches!(unpack("; x\n; p4 {}\n"), Err(Refused::Packed(_))));
    assert_eq!((program_bytes("; x\n"), program_bytes("; a\n; p4 {}\n")), (0, 2));
}

//= p4runtime-1.5.0 §7: what `millrace p4 build` writes is a device configuration: its program is compiled, and has to give its pipeline.
#[test]
fn what_p4_build_writes_is_compiled() {
    let (_, text) = built();
    let (limits, info) = (Limits::default(), info::P4Info::default());
    let form = program(text.as_bytes()).map_err(|e| e.text).unwrap();
    assert_eq!(form, Program::Built(&text));
    let own = build(form, &info, limits).map_err(|e| e.text).unwrap();
    let plain = compile(PROGRAM, limits).map_err(|e| e.text).unwrap();
    assert!(own.lowered.program == plain.lowered.program && own.info == plain.info);
    let refused = |text: &str| {
        let form = program(text.as_bytes()).map_err(|e| e.text).unwrap();
        let fault = build(form, &info, limits).err().unwrap();
        assert_eq!(fault.code, Code::InvalidArgument);
        fault.text
    };
    let told = refused("; x\n");
    assert!(told.contains("writes the program behind it"), "{told}");
    let told = refused(&text.replacen("h.color = 119", "h.color = 118", 1));
    assert!(told.contains("build it anew"), "{told}");
    let small = Limits { text_bytes: 10, ..limits };
    assert_eq!(build(form, &info, small).err().unwrap().code, Code::ResourceExhausted);
}

#[test]
fn it_is_pushed() {
    let bed = bed(PROGRAM);
    let _told = bed.primary();
    let (_, text) = built();
    let request = v1::SetForwardingPipelineConfigRequest {
        device_id: 1,
        election_id: Some(v1::Uint128 { high: 0, low: 1 }),
        action: v1::set_forwarding_pipeline_config_request::Action::VerifyAndCommit as i32,
        config: Some(v1::ForwardingPipelineConfig {
            p4info: Some(bed.info.clone()),
            p4_device_config: text.into_bytes(),
            cookie: None,
        }),
        ..v1::SetForwardingPipelineConfigRequest::default()
    };
    bed.device.set_pipeline(&request).map_err(|e| e.text).unwrap();
    assert_eq!(bed.host.lock().unwrap().generation(), 1);
}

//! The body of the fuzz target `p4runtime`, which the unit tests run too. Hidden: only tests and the fuzz target call it.

use crate::proto::{info, v1};
use crate::reference;
use crate::schema::Schema;
use p4::control::Control;
use p4::lower::Lowered;
use prost::Message;

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
    match first % 8 {
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
}

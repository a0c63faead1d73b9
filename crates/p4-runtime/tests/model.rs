//! Three clients that open and close streams, run for elections, write and read, beside a plain model.
//! `P4RUNTIME_MODEL=1000000` runs longer.

#[allow(unreachable_pub)]
mod common;

use common::{action, arbitration, batch, bed, exact, lpm};
use p4_runtime::proto::v1;
use std::collections::BTreeMap;
use tokio::sync::mpsc::Receiver;
use v1::entity::Entity as E;
use v1::stream_message_response::Update as Told;
use v1::update::Type;

const PROGRAM: &str = include_str!("../../../filetests/p4/everything.p4");

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A client as the model knows it.
#[derive(Default)]
struct Client {
    stream: Option<(u64, Receiver<p4_runtime::streams::Told>)>,
    election: Option<u128>,
    arbitrated: bool,
    /// What it was told last.
    code: Option<i32>,
}

#[derive(Default)]
struct Model {
    highest: Option<u128>,
    primary: Option<usize>,
    /// Keys and ports.
    exactly: BTreeMap<(u32, u16), u16>,
    /// Prefixes, lengths and ports.
    longest: BTreeMap<(u32, i32), u16>,
}

fn short(n: u32) -> Vec<u8> {
    p4_runtime::canonical::write_number(n.into())
}

#[test]
fn three_clients_and_the_model_agree() {
    let count: u64 =
        std::env::var("P4RUNTIME_MODEL").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000);
    let bed = bed(PROGRAM);
    let (exactly, longest, go) = (bed.id("exactly"), bed.id("longest"), bed.id("go"));
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut clients: [Client; 3] = Default::default();
    let mut model = Model::default();
    let (mut writes, mut taken, mut reads, mut elections) = (0u64, 0u64, 0u64, 0u64);
    for _ in 0..count {
        let who = random.below(3) as usize;
        match random.below(20) {
            0 => match clients[who].stream.take() {
                Some((stream, _)) => {
                    bed.device.close(stream);
                    clients[who] = Client::default();
                    if model.primary == Some(who) {
                        model.primary = None;
                    }
                }
                None => clients[who].stream = Some(bed.device.open()),
            },
            1 | 2 => {
                let Some((stream, _)) = clients[who].stream else { continue };
                // Mostly near the highest one.
                let near = model.highest.unwrap_or(0).saturating_sub(2);
                let id = (random.below(8) > 0).then(|| near + u128::from(random.below(5)));
                let done = bed.device.message(stream, arbitration(id));
                elections += 1;
                let duplicate = id.is_some()
                    && (0..3)
                        .any(|n| n != who && clients[n].arbitrated && clients[n].election == id);
                assert_eq!(done.is_err(), duplicate, "{done:?}");
                if duplicate {
                    // The server ends the stream.
                    bed.device.close(stream);
                    clients[who] = Client::default();
                    if model.primary == Some(who) {
                        model.primary = None;
                    }
                    continue;
                }
                clients[who].election = id;
                clients[who].arbitrated = true;
                if id.is_some() && id >= model.highest {
                    (model.highest, model.primary) = (id, Some(who));
                } else if model.primary == Some(who) {
                    model.primary = None;
                }
            }
            3..14 => {
                let id = clients[who].election.unwrap_or(77_777);
                let may = model.primary == Some(who);
                let mut updates = Vec::new();
                let mut expected = Vec::new();
                let mut after = (model.exactly.clone(), model.longest.clone());
                for _ in 0..=random.below(4) {
                    let kind = [Type::Insert, Type::Modify, Type::Delete][random.below(3) as usize];
                    let port = random.below(512) as u16;
                    let (a, b) = (random.below(4) as u32, random.below(4) as u16);
                    let of_exact = random.below(2) == 0;
                    let (matches, table, good) = if of_exact {
                        let keys = vec![exact(1, &short(a)), exact(2, &short(b.into()))];
                        let there = after.0.contains_key(&(a, b));
                        let good = there == (kind != Type::Insert);
                        if good && kind == Type::Delete {
                            after.0.remove(&(a, b));
                        } else if good {
                            after.0.insert((a, b), port);
                        }
                        (keys, exactly, good)
                    } else {
                        let len = 1 + random.below(3) as i32;
                        let prefix = (a << 30) & (u32::MAX << (32 - len));
                        let keys = vec![lpm(1, &short(prefix), len)];
                        let there = after.1.contains_key(&(prefix, len));
                        let good = there == (kind != Type::Insert);
                        if good && kind == Type::Delete {
                            after.1.remove(&(prefix, len));
                        } else if good {
                            after.1.insert((prefix, len), port);
                        }
                        (keys, longest, good)
                    };
                    let entry = v1::TableEntry {
                        table_id: table,
                        r#match: matches,
                        action: Some(action(go, Some(&short(port.into())))),
                        ..v1::TableEntry::default()
                    };
                    updates.push((kind, E::TableEntry(entry)));
                    expected.push(match (good, kind) {
                        (true, _) => 0,
                        (false, Type::Insert) => 6,
                        (false, _) => 5,
                    });
                }
                let mut request = batch(updates);
                let whole = random.below(3) == 0;
                request.atomicity = if whole { 1 } else { 0 };
                request.election_id = Some(v1::Uint128 { high: (id >> 64) as u64, low: id as u64 });
                let done = bed.device.write(&request);
                writes += 1;
                if !may {
                    assert_eq!(done.unwrap_err().code(), tonic::Code::PermissionDenied);
                    continue;
                }
                let all_good = expected.iter().all(|code| *code == 0);
                assert_eq!(done.is_ok(), all_good);
                if let Err(status) = done {
                    let told: p4_runtime::proto::rpc::Status =
                        prost::Message::decode(status.details()).unwrap();
                    let codes: Vec<i32> = told
                        .details
                        .iter()
                        .map(|d| {
                            let error: v1::Error = prost::Message::decode(&d.value[..]).unwrap();
                            error.canonical_code
                        })
                        .collect();
                    if whole {
                        let first = expected.iter().position(|c| *c != 0).unwrap();
                        let aborted = |i: usize| if i == first { expected[i] } else { 10 };
                        let wanted: Vec<i32> = (0..expected.len()).map(aborted).collect();
                        assert_eq!(codes, wanted);
                        continue;
                    }
                    assert_eq!(codes, expected);
                }
                taken += expected.iter().filter(|c| **c == 0).count() as u64;
                (model.exactly, model.longest) = after;
            }
            _ => {
                reads += 1;
                let of = |table_id| {
                    E::TableEntry(v1::TableEntry { table_id, ..v1::TableEntry::default() })
                };
                let port = |e: &v1::TableEntry| -> u16 {
                    let Some(v1::table_action::Type::Action(a)) =
                        e.action.as_ref().and_then(|a| a.r#type.as_ref())
                    else {
                        panic!("{e:?}")
                    };
                    assert_eq!(a.action_id, go);
                    number(&a.params[0].value) as u16
                };
                let mut told = BTreeMap::new();
                for e in bed.read(of(exactly)) {
                    let E::TableEntry(e) = e else { panic!("{e:?}") };
                    let key = (value(&e.r#match[0]) as u32, value(&e.r#match[1]) as u16);
                    told.insert(key, port(&e));
                }
                assert_eq!(told, model.exactly);
                let mut told = BTreeMap::new();
                for e in bed.read(of(longest)) {
                    let E::TableEntry(e) = e else { panic!("{e:?}") };
                    use v1::field_match::FieldMatchType as F;
                    let Some(F::Lpm(m)) = &e.r#match[0].field_match_type else { panic!("{e:?}") };
                    told.insert((number(&m.value) as u32, m.prefix_len), port(&e));
                }
                assert_eq!(told, model.longest);
            }
        }
        // What each client was told last is what holds.
        for (n, client) in clients.iter_mut().enumerate() {
            let Some((_, told)) = &mut client.stream else { continue };
            while let Ok(message) = told.try_recv() {
                if let Some(Told::Arbitration(update)) = message.unwrap().update {
                    client.code = Some(update.status.map_or(0, |s| s.code));
                }
            }
            if client.arbitrated {
                let code = match model.primary {
                    Some(primary) if primary == n => 0,
                    Some(_) => 6,
                    None => 5,
                };
                assert_eq!(client.code, Some(code), "client {n}");
            }
        }
    }
    eprintln!(
        "{count} operations: {elections} elections, {writes} writes with {taken} updates taken, {reads} reads"
    );
    assert!(taken > count / 50 && reads > 0 && elections > 0);
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn value(m: &v1::FieldMatch) -> u64 {
    match &m.field_match_type {
        Some(v1::field_match::FieldMatchType::Exact(m)) => number(&m.value),
        other => panic!("{other:?}"),
    }
}

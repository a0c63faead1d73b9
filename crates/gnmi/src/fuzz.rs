//! The body of the fuzz target `gnmi`, which the unit tests run too. Hidden: only tests and the fuzz target call it.

use crate::get::get;
use crate::interface::{Counters, Interface, Snapshot};
use crate::path::resolve;
use crate::proto::{
    CapabilityRequest, CapabilityResponse, GetRequest, GetResponse, Path, PathElem, SetRequest,
    SetResponse, SubscribeRequest, SubscribeResponse,
};
use crate::schema::{ABOVE, KEY, NODES};
use crate::server::capabilities;
use crate::set::plan;
use crate::subscribe::plan::first;
use crate::subscribe::track::{Room, Tracks};
use prost::Message;
use std::time::{Duration, Instant};

/// What decodes encodes and decodes to the same.
fn round<M: Message + Default + PartialEq + std::fmt::Debug>(data: &[u8]) -> Option<M> {
    let message = M::decode(data).ok()?;
    let again = M::decode(&message.encode_to_vec()[..]).expect("what was encoded decodes");
    // A number that is not equal to itself is compared by its bytes.
    if message != again {
        assert_eq!(message.encode_to_vec(), again.encode_to_vec());
    }
    Some(message)
}

fn interface(number: u32) -> Interface {
    Interface {
        number,
        name: format!("p{number}"),
        hardware: "memory:m".to_owned(),
        enabled: number != 2,
        admin_up: true,
        present: true,
        up: true,
        changed_ns: 1,
        transitions: 0,
        since_ns: 1,
        counters: Counters::default(),
    }
}

/// Room for some.
struct Some8(usize);

impl Room for Some8 {
    fn offer(&mut self, _: SubscribeResponse) -> bool {
        self.0 += 1;
        self.0 % 8 < 5
    }
}

/// A path of words as they come, of which many are those of the schema.
fn path(data: &[u8]) -> Path {
    let elem = data.chunks(2).take(80).map(|chunk| {
        let word = chunk[0] as usize;
        let names = &NODES[word % NODES.len()].names;
        let name = match word % 7 {
            0 => "*".to_owned(),
            1 => "...".to_owned(),
            2 => String::from_utf8_lossy(chunk).into_owned(),
            _ => names.last().map_or(String::new(), |name| (*name).to_owned()),
        };
        let of = chunk.get(1).copied().unwrap_or(0);
        let key = match of % 8 {
            0 => vec![(KEY.to_owned(), format!("p{}", of / 8 % 4))],
            1 => vec![(KEY.to_owned(), "*".to_owned())],
            2 => vec![("id".to_owned(), "1".to_owned())],
            _ => Vec::new(),
        };
        PathElem { name, key: key.into_iter().collect() }
    });
    Path { elem: elem.collect(), ..Path::default() }
}

/// Any bytes as any message, and as a path: answered or refused.
///
/// # Panics
/// If a refusal says nothing, or a path leads to what does not stand in the schema.
pub fn fuzz(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let snapshot = Snapshot { at_ns: 1, interfaces: (1..=3).map(interface).collect() };
    match kind % 8 {
        0 => {
            if let Some(request) = round::<GetRequest>(rest) {
                got(&request, &snapshot);
            }
        }
        1 => {
            let Some(request) = round::<SetRequest>(rest) else { return };
            match plan(&request, &snapshot.interfaces) {
                Ok((wanted, results)) => {
                    assert_eq!(wanted.len(), snapshot.interfaces.len());
                    let changes = request.replace.len() + request.update.len();
                    let all = changes + request.delete.len() + request.union_replace.len();
                    assert_eq!(results.len(), all);
                }
                Err(fault) => assert!(!fault.text.is_empty()),
            }
        }
        2 => {
            if let Some(request) = round::<SubscribeRequest>(rest) {
                subscribed(&request, &snapshot);
            }
        }
        3 => {
            if let Some(request) = round::<CapabilityRequest>(rest)
                && let Err(fault) = capabilities(&request)
            {
                assert!(!fault.text.is_empty());
            }
        }
        4 => {
            round::<GetResponse>(rest);
            round::<SetResponse>(rest);
            round::<SubscribeResponse>(rest);
            round::<CapabilityResponse>(rest);
        }
        _ => {
            let (prefix, rest) = rest.split_at(rest.len() / 3);
            let (prefix, path) = (path(prefix), path(rest));
            match resolve(Some(&prefix), &path) {
                Ok(selection) => {
                    assert!(!selection.nodes.is_empty());
                    let deep = |n: &crate::schema::Node| n.depth() >= ABOVE.len();
                    if selection.interface.is_some() {
                        assert!(selection.nodes.iter().all(|n| deep(n)));
                    }
                    let mut rows: Vec<usize> = selection.leaves().collect();
                    let all = rows.len();
                    rows.sort_unstable();
                    rows.dedup();
                    assert_eq!(rows.len(), all, "a leaf is told once");
                }
                Err(fault) => assert!(!fault.text.is_empty()),
            }
            for encoding in [0, 2, 4] {
                let path = vec![path.clone()];
                let request = GetRequest {
                    prefix: Some(prefix.clone()),
                    path,
                    encoding,
                    ..Default::default()
                };
                got(&request, &snapshot);
            }
        }
    }
}

fn got(request: &GetRequest, snapshot: &Snapshot) {
    match get(request, snapshot) {
        Ok(response) => {
            assert_eq!(response.notification.len(), request.path.len().max(1));
            round::<GetResponse>(&response.encode_to_vec());
        }
        Err(fault) => assert!(!fault.text.is_empty()),
    }
}

fn subscribed(request: &SubscribeRequest, snapshot: &Snapshot) {
    let plan = match first(request) {
        Ok(plan) => plan,
        Err(fault) => return assert!(!fault.text.is_empty()),
    };
    let mut now = Instant::now();
    let mut tracks = Tracks::new(&plan, now);
    let all = tracks.begin(snapshot).expect("few leaves").len();
    assert_eq!(tracks.once(snapshot).count(), all);
    let mut room = Some8(0);
    let mut later = snapshot.clone();
    for step in 0..8 {
        later.interfaces[step % 2].up ^= true;
        let event = later.interfaces[step % 2].clone();
        tracks.event(&event, step == 6, 2, &mut room).expect("few leaves");
        now = tracks.due().unwrap_or(now).max(now) + Duration::from_millis(1);
        tracks.tell(now, &later, &mut room).expect("few leaves");
        assert!(tracks.due().is_none_or(|due| due > now), "what was due is done");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_answered_or_refused() {
        let mut seed = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        for _ in 0..20_000 {
            let len = (next() % 32) as usize;
            let data: Vec<u8> = (0..len).map(|_| next() as u8).collect();
            fuzz(&data);
        }
    }
}

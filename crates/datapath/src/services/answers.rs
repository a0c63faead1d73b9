//! Answers of ARP and of neighbour discovery for addresses that services own (`answer=`).
//!
//! The program hands requests over before its first table ([`NAME`]), so no entry of a controller is needed, and none can
//! take them away. What is owned is a list that is replaced as a whole; nothing is kept of packets, so workers need no lock.
//!
//! Invariants: no address has two owners. A packet that only is looked at is answered, and not counted.
//! Checked by: the tests below; `of_pipeline`'s `tests/answers.rs`, by both engines; `lab/walk_services`, with Linux's hosts.

use super::call::{Burst, Call, Service, answer, checksum};
use arc_swap::ArcSwap;
pub use contract::answers::NAME;
use jit::Handed;
use port::Csum;
use service::catalogue::Answered;
use service::neighbour::{self, Answer};
use service::packet::Packet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What was answered for one service.
#[derive(Debug, Default)]
pub struct AnswerCounts {
    arp: AtomicU64,
    nd: AtomicU64,
    malformed: AtomicU64,
}

impl AnswerCounts {
    /// Names, in stable words, and numbers: as those of the kind `neighbour`.
    pub fn read(&self) -> [(&'static str, u64); 3] {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        [
            ("arp_answered", read(&self.arp)),
            ("nd_answered", read(&self.nd)),
            ("answer_malformed", read(&self.malformed)),
        ]
    }

    /// Goes on from what another process has counted: names, and numbers.
    pub fn add(&self, counted: &[(String, u64)]) {
        let fields = [&self.arp, &self.nd, &self.malformed];
        for (field, (name, _)) in fields.into_iter().zip(self.read()) {
            let more = counted.iter().filter(|(other, _)| other == name).map(|(_, n)| n);
            field.fetch_add(more.sum(), Ordering::Relaxed);
        }
    }
}

/// Addresses that one service owns, from the map's key to the last.
#[derive(Debug, Clone)]
struct Owned {
    last: IpAddr,
    mac: [u8; 6],
    counts: Arc<AnswerCounts>,
}

/// All addresses that are answered for, by the first of each range; ranges are apart.
type List = BTreeMap<IpAddr, Owned>;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Answers {
    list: ArcSwap<List>,
}

impl Answers {
    /// Answers for these from now on, and no others.
    pub(super) fn set<'a>(
        &self,
        owned: impl Iterator<Item = (&'a [Answered], &'a Arc<AnswerCounts>)>,
    ) {
        let mut list = List::new();
        for (all, counts) in owned {
            for Answered { first, last, mac } in all {
                let owned = Owned { last: *last, mac: *mac, counts: counts.clone() };
                list.entry(*first).or_insert(owned);
            }
        }
        self.list.store(Arc::new(list));
    }

    /// Whether any address is answered for.
    pub fn any(&self) -> bool {
        !self.list.load().is_empty()
    }

    /// Makes a request its answer; whether it was one.
    fn of(list: &List, frame: &mut [u8], csum: Csum, counted: bool) -> bool {
        let mut packet = Packet { checksum: checksum(csum), ..Packet::of(frame) };
        let mut owner = None;
        let became = neighbour::answer(&mut packet, &mut |address| {
            let (_, owned) = list.range(..=address).next_back()?;
            owner = (owned.last >= address).then_some(owned);
            owner.map(|owned| owned.mac)
        });
        if let (Some(became), Some(owned), true) = (became, owner, counted) {
            let counter = match became {
                Answer::Arp => &owned.counts.arp,
                Answer::Nd => &owned.counts.nd,
                Answer::Malformed => &owned.counts.malformed,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        matches!(became, Some(Answer::Arp | Answer::Nd))
    }
}

impl Service for Answers {
    fn burst(&self, burst: Burst<'_>, packets: &mut [Handed<'_>]) {
        let list = self.list.load();
        for handed in packets {
            let csum = burst.csum(handed);
            let answered = Answers::of(&list, handed.bytes, csum, true);
            if let Some(to) = handed.results.first_mut() {
                *to = answered.into();
            }
        }
    }

    fn call(&self, call: Call<'_>, results: &mut [ir::Bits]) -> bool {
        let answered = Answers::of(&self.list.load(), call.packet, call.csum, !call.look);
        answer(results, 0, answered);
        true
    }

    fn tend(&self, _now_ns: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: [u8; 4] = [10, 0, 0, 5];

    fn request() -> Vec<u8> {
        let head = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1], &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        [&head[..], &[2, 0, 0, 0, 0, 1, 10, 0, 0, 1], &[0; 6], &ASKED].concat()
    }

    fn owned(first: &str, last: &str, mac: u8) -> Answered {
        let (first, last) = (first.parse().unwrap(), last.parse().unwrap());
        Answered { first, last, mac: [2, 0, 0, 0, 0, mac] }
    }

    #[test]
    fn the_owner_of_an_address_answers_and_counts() {
        let (answers, a, b) = (Answers::default(), Arc::default(), Arc::<AnswerCounts>::default());
        assert!(!answers.any());
        let of_a = [owned("10.0.0.1", "10.0.0.4", 1), owned("::", "ffff::", 1)];
        let of_b = [owned("10.0.0.5", "10.0.0.9", 2)];
        answers.set([(&of_a[..], &a), (&of_b[..], &b)].into_iter());
        let mut frame = request();
        let list = answers.list.load_full();
        assert!(Answers::of(&list, &mut frame, Csum::None, true));
        assert_eq!((frame[..6].to_vec(), frame[11], frame[21]), (vec![2, 0, 0, 0, 0, 1], 2, 2));
        assert!(Answers::of(&list, &mut request(), Csum::None, false));
        assert_eq!((a.read()[0].1, b.read()[0]), (0, ("arp_answered", 1)));
        answers.set([(&of_a[..], &a)].into_iter());
        let (list, mut frame) = (answers.list.load_full(), request());
        assert!(!Answers::of(&list, &mut frame, Csum::None, true));
        assert_eq!(frame, request(), "nobody's any more");
        b.add(&[("arp_answered".to_owned(), 3), ("other".to_owned(), 9)]);
        assert_eq!(b.read().map(|(_, n)| n), [4, 0, 0]);
    }
}

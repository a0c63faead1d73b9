//! Places for those who connect to us: so many in all, and so many of each source.
//!
//! A source is an IPv4 address, the network of 64 bits of an IPv6 address, or a UNIX socket of ours. None
//! has more than [`PART`] of all places, so who opens connection after connection keeps no other one out.
//! Connections that we make to controllers take no place here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One source has this part of all places, at most.
const PART: usize = 4;
/// Few places are few for everybody.
const PART_MIN: usize = 4;

/// Where connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    V4(u32),
    /// The first 64 bits.
    V6(u64),
    /// Whoever may open one of our UNIX sockets.
    Unix,
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Source {
        match address.to_canonical() {
            IpAddr::V4(a) => Source::V4(a.to_bits()),
            IpAddr::V6(a) => Source::V6((a.to_bits() >> 64) as u64),
        }
    }
}

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Full {
    /// All are taken.
    #[error("{0} connections are the most")]
    All(usize),
    /// The source has its part.
    #[error("{0} connections are the most of one source")]
    Source(usize),
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_source: HashMap<Source, usize>,
}

/// All places.
#[derive(Clone)]
pub(crate) struct Places {
    most: usize,
    taken: Arc<Mutex<Taken>>,
}

/// A place that is taken; given back when dropped.
pub(crate) struct Seat {
    source: Source,
    taken: Arc<Mutex<Taken>>,
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Places {
    /// So many, all free.
    pub(crate) fn new(most: usize) -> Places {
        Places { most: most.max(1), taken: Arc::default() }
    }

    /// A place, if there is one.
    pub(crate) fn take(&self, source: Source) -> Result<Seat, Full> {
        let part = (self.most / PART).max(PART_MIN).min(self.most);
        let mut taken = lock(&self.taken);
        if taken.all >= self.most {
            return Err(Full::All(self.most));
        }
        let own = taken.by_source.entry(source).or_default();
        if *own >= part {
            return Err(Full::Source(part));
        }
        *own += 1;
        taken.all += 1;
        Ok(Seat { source, taken: self.taken.clone() })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = lock(&self.taken);
        taken.all -= 1;
        let own = taken.by_source.get_mut(&self.source).map_or(0, |own| {
            *own -= 1;
            *own
        });
        if own == 0 {
            taken.by_source.remove(&self.source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn one_source_keeps_no_other_out() {
        let places = Places::new(100);
        let flood: Vec<_> = (0..100).map_while(|_| places.take(source("10.0.0.1")).ok()).collect();
        assert_eq!(flood.len(), 25);
        let refused = places.take(source("10.0.0.1")).err().unwrap();
        assert_eq!(refused.to_string(), "25 connections are the most of one source");
        let _others =
            [places.take(source("10.0.0.2")).unwrap(), places.take(Source::Unix).unwrap()];
        drop(flood);
        assert!(places.take(source("10.0.0.1")).is_ok(), "what was given back is free");
        assert_eq!(lock(&places.taken).by_source.len(), 2, "who has none is forgotten");
    }

    #[test]
    fn all_together_have_no_more_than_there_are() {
        let places = Places::new(10);
        let seats: Vec<_> =
            (0..40u32).filter_map(|n| places.take(Source::V4(n % 20)).ok()).collect();
        assert_eq!(seats.len(), 10);
        let refused = places.take(Source::Unix).err().unwrap();
        assert_eq!(refused.to_string(), "10 connections are the most");
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_mapped_addresses_are_ipv4() {
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1:2:3"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:10.1.2.3"), source("10.1.2.3"));
    }

    #[test]
    fn few_places_serve_a_few_of_one_source() {
        let places = Places::new(3);
        let seats: Vec<_> = (0..9).map_while(|_| places.take(Source::Unix).ok()).collect();
        assert_eq!(seats.len(), 3);
    }
}

//! Long multipart replies, made step by step: the statistics of entries, groups and meters.
//!
//! A [`Listing`] is a reply under way. Each step ([`Agent::list_on`]) looks at [`LOOKS`] entries at most
//! and makes at most one message of them, so whoever answers makes no more than its peer takes: memory is
//! bounded by a message, and nobody waits long for the agent.
//!
//! Between steps the switch may change. Entries come in the order of their tables and ids, groups and
//! meters by number: what is there from the first step to the last is told once, with its counters of
//! then; what comes or goes meanwhile may be told or not.
//! Checked by: tests below, and `of-channel`'s `tests/listings.rs`.

use crate::agent::Agent;
use crate::counts::{age_of, counts, told};
use crate::emergency;
use crate::flow::{Filter, Flow, FlowKey};
use crate::refusal::Refusal;
use crate::sizes::{buckets_bytes, flow_bytes};
use openflow::{
    FlowCounts, FlowStats, FlowStatsRequest, GroupDesc, GroupId, GroupStats, Message, MeterConfig,
    MeterId, MeterStats, MultipartReply, MultipartReplyBody, MultipartRequestBody, TableId,
    Version,
};
use switch::CounterValue;

/// Entries that one step looks at, at most.
const LOOKS: usize = 4096;

/// Bytes of bodies in one message of a reply: below 2^16 with its headers.
pub(crate) const PART_MAX: usize = 60_000;

/// The reason of statistics that were asked for.
const REQUESTED: u8 = 0;

/// What the next message will hold, by kind.
enum Part {
    Flow(Vec<FlowStats>),
    NxFlow(Vec<FlowStats>),
    Counts(Vec<FlowCounts>),
    Group(Vec<GroupStats>),
    GroupDesc(Vec<GroupDesc>),
    Meter(Vec<MeterStats>),
    MeterConfig(Vec<MeterConfig>),
}

/// What is listed.
enum Of {
    /// Entries, by the kind's own filter; `emergency` of them are told already, and `from` is next.
    Flows { version: Version, request: FlowStatsRequest, emergency: usize, from: Option<FlowKey> },
    /// Groups or meters from this number on.
    Numbers { asked: u32, all: u32, from: Option<u32> },
}

/// A long reply under way.
pub struct Listing {
    of: Of,
    part: Part,
    bytes: usize,
    over: bool,
}

/// Where a step stands after an item.
enum Step {
    /// There may be more in this message.
    On,
    /// The message is full without it.
    Full,
}

impl Listing {
    /// The last message was made.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Whether an item of so many bytes fits.
    fn fits(&mut self, bytes: usize) -> Step {
        if self.bytes > 0 && self.bytes + bytes > PART_MAX {
            return Step::Full;
        }
        self.bytes += bytes;
        Step::On
    }

    fn message(&mut self, more: bool) -> Message {
        use std::mem::take;
        self.bytes = 0;
        self.over = !more;
        let body = match &mut self.part {
            Part::Flow(items) => MultipartReplyBody::Flow(take(items)),
            Part::NxFlow(items) => MultipartReplyBody::NxFlow(take(items)),
            Part::Counts(items) => MultipartReplyBody::FlowCounts(take(items)),
            Part::Group(items) => MultipartReplyBody::Group(take(items)),
            Part::GroupDesc(items) => MultipartReplyBody::GroupDesc(take(items)),
            Part::Meter(items) => MultipartReplyBody::Meter(take(items)),
            Part::MeterConfig(items) => MultipartReplyBody::MeterConfig(take(items)),
        };
        Message::MultipartReply(MultipartReply { more, body })
    }
}

impl Agent {
    /// Begins the reply to a request for a long one; none if it is for another.
    pub fn list(
        &self,
        version: Version,
        request: &MultipartRequestBody,
    ) -> Result<Option<Listing>, Refusal> {
        use MultipartRequestBody as Request;
        let flows = |request: &FlowStatsRequest, part| {
            // What is wrong with it is said at once.
            self.filter(version, request)?;
            let from = Some(FlowKey { table: 0, id: 0 });
            let of = Of::Flows { version, request: request.clone(), emergency: 0, from };
            Ok::<_, Refusal>((of, part))
        };
        let groups =
            |group: GroupId| Of::Numbers { asked: group.0, all: GroupId::ALL.0, from: Some(0) };
        let meters = |meter: MeterId| {
            //= openflow-1.3.5 §7.4.4: a meter that is not there is OFPMMFC_UNKNOWN_METER.
            if meter != MeterId::ALL && !self.stores.meters.contains(meter.0) {
                return Err(Refusal::UnknownMeter { meter: meter.0 });
            }
            Ok(Of::Numbers { asked: meter.0, all: MeterId::ALL.0, from: Some(0) })
        };
        let (of, part) = match request {
            Request::Flow(request) if request.extended => flows(request, Part::NxFlow(Vec::new()))?,
            Request::Flow(request) => flows(request, Part::Flow(Vec::new()))?,
            Request::FlowCounts(request) => flows(request, Part::Counts(Vec::new()))?,
            Request::Group(group) => (groups(*group), Part::Group(Vec::new())),
            Request::GroupDesc(group) => (groups(*group), Part::GroupDesc(Vec::new())),
            Request::Meter(meter) => (meters(*meter)?, Part::Meter(Vec::new())),
            Request::MeterConfig(meter) => (meters(*meter)?, Part::MeterConfig(Vec::new())),
            _ => return Ok(None),
        };
        Ok(Some(Listing { of, part, bytes: 0, over: false }))
    }

    /// One step of a reply, and the message that it made, if it did.
    pub fn list_on(&self, listing: &mut Listing) -> Option<Message> {
        if listing.over {
            return None;
        }
        match std::mem::replace(&mut listing.of, Of::Numbers { asked: 0, all: 0, from: None }) {
            Of::Flows { version, request, emergency, from } => {
                let at = self.list_flows(listing, version, &request, (emergency, from));
                let (emergency, from, message) = at;
                listing.of = Of::Flows { version, request, emergency, from };
                message
            }
            Of::Numbers { asked, all, from } => {
                let (from, message) = match &listing.part {
                    Part::Meter(_) | Part::MeterConfig(_) => {
                        self.list_meters(listing, asked, all, from)
                    }
                    _ => self.list_groups(listing, asked, all, from),
                };
                listing.of = Of::Numbers { asked, all, from };
                message
            }
        }
    }

    /// As [`list_on`](Self::list_on), of entries: how far it came, and the message.
    fn list_flows(
        &self,
        listing: &mut Listing,
        version: Version,
        request: &FlowStatsRequest,
        (mut emergency, from): (usize, Option<FlowKey>),
    ) -> (usize, Option<FlowKey>, Option<Message>) {
        // Tables that have gone meanwhile hold no entries.
        let (Ok(filter), Some(from)) = (self.filter(version, request), from) else {
            return (emergency, None, Some(listing.message(false)));
        };
        let filter: Filter<'_> = filter;
        let now_ns = self.env.switch.now_ns();
        let mut add = |table: TableId, key: FlowKey, count: CounterValue, flow: &Flow| {
            if let Step::Full = listing.fits(flow_bytes(flow)) {
                return false;
            }
            match &mut listing.part {
                Part::Counts(items) => items.push(counts(key, flow, count, now_ns, REQUESTED)),
                Part::Flow(items) | Part::NxFlow(items) => {
                    items.push(stats(table, count, flow, now_ns));
                }
                _ => {}
            }
            true
        };
        let first = from == FlowKey { table: 0, id: 0 };
        if first && emergency::is_asked(version, request) {
            for flow in self.emergency.select(&filter).skip(emergency) {
                if !add(TableId::EMERGENCY, from, CounterValue::default(), flow) {
                    return (emergency, Some(from), Some(listing.message(true)));
                }
                emergency += 1;
            }
        }
        for (looked, (key, flow, admitted)) in
            self.stores.flows.select_from(&filter, from).enumerate()
        {
            if looked == LOOKS {
                return (emergency, Some(key), None);
            }
            // One lock an entry, not one for all: a listing is no reason to keep the switch from
            // freeing counters, and so from publishing.
            if admitted && !add(TableId(key.table), key, self.env.switch.counter(key.id), flow) {
                return (emergency, Some(key), Some(listing.message(true)));
            }
        }
        (emergency, None, Some(listing.message(false)))
    }

    fn list_groups(
        &self,
        listing: &mut Listing,
        asked: u32,
        all: u32,
        from: Option<u32>,
    ) -> (Option<u32>, Option<Message>) {
        let now_ns = self.env.switch.now_ns();
        let first = if asked == all { from } else { from.map(|from| from.max(asked)) };
        let groups = first.into_iter().flat_map(|first| self.stores.groups.iter_from(first));
        let wanted = groups.take_while(|(id, _)| asked == all || *id == asked);
        for (looked, (id, entry)) in wanted.enumerate() {
            if looked == LOOKS {
                return (Some(id), None);
            }
            let bytes = match &listing.part {
                Part::Group(_) => 40 + 16 * entry.bucket_counters.len(),
                _ => {
                    let selection = entry.selection.as_ref();
                    let selection = selection.map_or(0, |s| 40 + 20 * s.fields.len());
                    16 + selection + buckets_bytes(&entry.buckets)
                }
            };
            if let Step::Full = listing.fits(bytes) {
                return (Some(id), Some(listing.message(true)));
            }
            match &mut listing.part {
                Part::Group(items) => items.push(self.group_stats(id, entry, now_ns)),
                Part::GroupDesc(items) => items.push(GroupDesc {
                    group_type: entry.group_type,
                    group_id: GroupId(id),
                    selection: entry.selection.clone(),
                    buckets: entry.buckets.clone(),
                }),
                _ => {}
            }
        }
        (None, Some(listing.message(false)))
    }

    fn list_meters(
        &self,
        listing: &mut Listing,
        asked: u32,
        all: u32,
        from: Option<u32>,
    ) -> (Option<u32>, Option<Message>) {
        let first = if asked == all { from } else { from.map(|from| from.max(asked)) };
        let meters = first.into_iter().flat_map(|first| self.stores.meters.iter_from(first));
        let wanted = meters.take_while(|(id, _)| asked == all || *id == asked);
        for (looked, (id, meter)) in wanted.enumerate() {
            if looked == LOOKS {
                return (Some(id), None);
            }
            if let Step::Full = listing.fits(40 + 16 * meter.bands.len()) {
                return (Some(id), Some(listing.message(true)));
            }
            match &mut listing.part {
                Part::Meter(items) => items.push(self.meter_stats(id)),
                Part::MeterConfig(items) => items.push(MeterConfig {
                    flags: meter.flags,
                    meter_id: MeterId(id),
                    bands: meter.bands.clone(),
                }),
                _ => {}
            }
        }
        (None, Some(listing.message(false)))
    }
}

fn stats(table_id: TableId, count: CounterValue, flow: &Flow, now_ns: u64) -> FlowStats {
    let (packet_count, byte_count) = told(flow.flags, count.packets, count.bytes);
    let age = age_of(flow, now_ns);
    FlowStats { age, packet_count, byte_count, ..flow.stats(table_id) }
}

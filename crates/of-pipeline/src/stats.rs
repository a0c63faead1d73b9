//! Multipart replies: descriptions and statistics (1.3.5 §7.3.5; 1.0.2 §5.3.5).
//!
//! A reply that outgrows a message goes out in parts, each handed on as soon as it is full, so that
//! the statistics of many entries take one pass over them and never lie in memory whole. Those of
//! entries, groups and meters are listed step by step ([`crate::listing`]).

use crate::agent::Agent;
use crate::counts::{age, age_of_ns};
use crate::emergency;
use crate::features;
use crate::flow::Filter;
use crate::group_table::GroupEntry;
use crate::listing::PART_MAX;
use crate::monitor::{FlowChange, concerns, full, told};
use crate::refusal::Refusal;
use openflow::{
    AggregateStats, BucketStats, BundleFeatures, BundleFlags, FlowModFlags, FlowMonitorRequest,
    FlowStatsRequest, FlowUpdate, FlowUpdateKind, GroupId, GroupStats, Message, MeterId,
    MeterStats, MonitorFlags, MultipartReply, MultipartReplyBody, MultipartRequest,
    MultipartRequestBody, PortNo, PortStats, QueueConfig, QueueId, QueueProperty, QueueStats,
    QueueStatsRequest, TableId, TableStats, Version,
};
use std::sync::Arc;
use switch::queues::Queues;
use switch::{CounterValue, PortView};

/// 1.0's wildcard bits, all of them.
const WILDCARDS_V10: u32 = (1 << 22) - 1;

/// A reply under way.
struct Parts<'a, T> {
    items: Vec<T>,
    bytes: usize,
    body: fn(Vec<T>) -> MultipartReplyBody,
    reply: &'a mut dyn FnMut(Message),
}

impl<'a, T> Parts<'a, T> {
    fn new(
        body: fn(Vec<T>) -> MultipartReplyBody,
        reply: &'a mut dyn FnMut(Message),
    ) -> Parts<'a, T> {
        Parts { items: Vec::new(), bytes: 0, body, reply }
    }

    /// One more item, of at most so many bytes.
    fn push(&mut self, item: T, bytes: usize) {
        if !self.items.is_empty() && self.bytes + bytes > PART_MAX {
            self.send(true);
        }
        self.items.push(item);
        self.bytes += bytes;
    }

    fn send(&mut self, more: bool) {
        self.bytes = 0;
        let body = (self.body)(std::mem::take(&mut self.items));
        (self.reply)(Message::MultipartReply(MultipartReply { more, body }));
    }

    /// The last part, which is there even if it is empty.
    fn finish(mut self) {
        self.send(false);
    }
}

/// All of them in as many parts as it takes.
fn send_all<T>(
    items: impl IntoIterator<Item = (T, usize)>,
    body: fn(Vec<T>) -> MultipartReplyBody,
    reply: &mut dyn FnMut(Message),
) {
    let mut parts = Parts::new(body, reply);
    items.into_iter().for_each(|(item, bytes)| parts.push(item, bytes));
    parts.finish();
}

fn single(body: MultipartReplyBody, reply: &mut dyn FnMut(Message)) {
    reply(Message::MultipartReply(MultipartReply { more: false, body }));
}

impl Agent {
    /// Answers a multipart request.
    pub(crate) fn multipart(
        &self,
        version: Version,
        request: MultipartRequest,
        reply: &mut dyn FnMut(Message),
    ) -> Result<(), Refusal> {
        use MultipartReplyBody as Reply;
        use MultipartRequestBody as Request;
        //= openflow-1.3.5 §7.3.5: who does not gather requests of several messages says so with
        //= OFPBRC_MULTIPART_BUFFER_OVERFLOW.
        if request.more {
            return Err(Refusal::MultipartMore);
        }
        if let Some(mut listing) = self.list(version, &request.body)? {
            while !listing.is_over() {
                self.list_on(&mut listing).into_iter().for_each(&mut *reply);
            }
            return Ok(());
        }
        match request.body {
            // Those have been listed.
            Request::Flow(_)
            | Request::FlowCounts(_)
            | Request::Group(_)
            | Request::GroupDesc(_)
            | Request::Meter(_)
            | Request::MeterConfig(_) => {}
            Request::Desc => single(Reply::Desc(Box::new(self.env.config.desc.clone())), reply),
            Request::Aggregate(request) => {
                let sums = self.aggregate(version, &request)?;
                match request.extended {
                    true => single(Reply::NxAggregate(sums), reply),
                    false => single(Reply::Aggregate(sums), reply),
                }
            }
            Request::Table => {
                send_all(self.table_stats(version).map(|t| (t, 64)), Reply::Table, reply);
            }
            Request::PortStats(port) => {
                let stats = self.port_stats(version, port)?;
                send_all(stats.into_iter().map(|p| (p, 128)), Reply::PortStats, reply);
            }
            Request::Queue(request) => {
                let stats = self.queue_stats(version, &request)?;
                send_all(stats.into_iter().map(|stats| (stats, 48)), Reply::Queue, reply);
            }
            Request::GroupFeatures => {
                single(Reply::GroupFeatures(features::groups(&self.env.config, version)), reply);
            }
            Request::MeterFeatures => {
                single(Reply::MeterFeatures(features::meters(&self.env.config)), reply);
            }
            //= openflow-1.3.5 §7.3.5.5: an empty request asks; another one configures.
            Request::TableFeatures(_) => self.table_features(version, reply),
            Request::PortDesc(asked) => {
                //= openflow-1.5.1 §7.3.5.7: one port may be asked about; one that is not there is
                //= OFPBRC_BAD_PORT.
                if asked != PortNo::ANY && !self.stores.ports.contains(asked.0) {
                    return Err(Refusal::StatsPort { port: asked });
                }
                let wanted =
                    move |p: &openflow::PortDesc| asked == PortNo::ANY || p.port_no == asked;
                let descs = self.port_descs().into_iter().filter(wanted).map(|p| (p, 80));
                send_all(descs, Reply::PortDesc, reply);
            }
            Request::TableDesc => {
                let descs = self
                    .stores
                    .tables
                    .tables()
                    .map(|t| (self.stores.tables.desc(t, &self.stores.flows), 40));
                send_all(descs, Reply::TableDesc, reply);
            }
            Request::QueueDesc(request) => {
                let queues = self.queue_configs(&request)?;
                send_all(queues.into_iter().map(|queue| (queue, 32)), Reply::QueueDesc, reply);
            }
            Request::BundleFeatures(_) => {
                let capabilities = BundleFlags::ATOMIC | BundleFlags::ORDERED;
                single(Reply::BundleFeatures(BundleFeatures { capabilities, times: None }), reply);
            }
            Request::FlowMonitor(_) => return Err(Refusal::FlowMonitor),
            //= openflow-1.5.1 §7.3.5.15: who the controllers are, the channel knows.
            Request::ControllerStatus => return Err(Refusal::ControllerStatus),
            Request::Experimenter(e) => {
                return Err(Refusal::Experimenter { experimenter: e.experimenter });
            }
        }
        Ok(())
    }

    /// The entries that a monitor watches now.
    pub fn monitored(
        &self,
        version: Version,
        monitor: &FlowMonitorRequest,
    ) -> Result<Vec<FlowUpdate>, Refusal> {
        let tables = self.stores.flows.tables();
        let TableId(table) = monitor.table_id;
        let one = version == Version::V10;
        //= openflow-1.4.1 §7.5.4.16: a table that is not there is OFPMOFC_BAD_TABLE_ID.
        if monitor.table_id != TableId::ALL && !self.stores.tables.contains(table) {
            return Err(Refusal::MonitorTable { table, tables });
        }
        monitor.matching.check()?;
        if !monitor.flags.contains(MonitorFlags::INITIAL)
            || monitor.flags.contains(MonitorFlags::ONLY_OWN)
        {
            return Ok(Vec::new());
        }
        let kind = if one { FlowUpdateKind::Added } else { FlowUpdateKind::Initial };
        let mut list = Vec::new();
        for (key, flow) in (0..tables as u8).flat_map(|table| self.stores.flows.iter(table)) {
            let change = FlowChange { update: full(kind, key, flow), before: None, by: None };
            let watches = FlowMonitorRequest { flags: MonitorFlags::all(), ..monitor.clone() };
            let all = watches.flags - MonitorFlags::ONLY_OWN;
            if concerns(&FlowMonitorRequest { flags: all, ..watches }, &change, 0) {
                list.push(told(monitor.flags, &change, 0));
            }
        }
        Ok(list)
    }

    /// Tells the features of all tables.
    pub(crate) fn table_features(&self, version: Version, reply: &mut dyn FnMut(Message)) {
        let tables = self.stores.tables.tables();
        let features = tables.map(|table| features::table(version, table, &self.stores.tables));
        let sized = features.map(|f| {
            let n = features::bytes(&f);
            (f, n)
        });
        send_all(sized, MultipartReplyBody::TableFeatures, reply);
    }

    /// The tables that a request is about: none for all, or one.
    fn asked_table(&self, version: Version, table: TableId) -> Result<Option<u8>, Refusal> {
        match (version, table) {
            // 1.0 sees the first table, and has no word for others.
            (Version::V10, TableId::ALL) => Ok(Some(0)),
            (_, TableId::ALL) => Ok(None),
            (Version::V10, TableId(table)) => Ok(Some(table)),
            (_, TableId(table)) if self.stores.tables.contains(table) => Ok(Some(table)),
            (_, TableId(table)) => {
                Err(Refusal::RequestTable { table, tables: self.stores.flows.tables() })
            }
        }
    }

    pub(crate) fn filter<'a>(
        &self,
        version: Version,
        request: &'a FlowStatsRequest,
    ) -> Result<Filter<'a>, Refusal> {
        request.matching.check()?;
        Ok(Filter {
            // Nicira's requests see all tables, as those of later versions do.
            table: match request.extended {
                true => self.asked_table(Version::V13, request.table_id)?,
                false => self.asked_table(version, request.table_id)?,
            },
            matching: &request.matching,
            cookie: request.cookie,
            cookie_mask: match version {
                Version::V10 if !request.extended => 0,
                _ => request.cookie_mask,
            },
            out_port: request.out_port,
            out_group: request.out_group,
        })
    }

    //= openflow-1.3.5 §7.3.5.3: sums over the entries that a flow request would list.
    fn aggregate(
        &self,
        version: Version,
        request: &FlowStatsRequest,
    ) -> Result<AggregateStats, Refusal> {
        let filter = self.filter(version, request)?;
        let reader = self.env.switch.counters();
        let mut sum = AggregateStats::default();
        if emergency::is_asked(version, request) {
            sum.flow_count = self.emergency.select(&filter).count() as u32;
        }
        for (key, flow) in self.stores.flows.select(&filter) {
            let count = reader.read(key.id).unwrap_or_default();
            let unless = |flag, n| if flow.flags.contains(flag) { 0 } else { n };
            sum.packet_count += unless(FlowModFlags::NO_PKT_COUNTS, count.packets);
            sum.byte_count += unless(FlowModFlags::NO_BYT_COUNTS, count.bytes);
            sum.flow_count = sum.flow_count.saturating_add(1);
        }
        Ok(sum)
    }

    fn table_stats(&self, version: Version) -> impl Iterator<Item = TableStats> {
        let v10 = version == Version::V10;
        let tables = self.stores.tables.tables().take(if v10 { 1 } else { usize::MAX });
        tables.map(move |table| {
            let stats = self.env.switch.table_stats(ir::TableId(table.into()));
            TableStats {
                table_id: TableId(table),
                active_count: self.stores.flows.len(table) as u32,
                lookup_count: stats.lookups,
                matched_count: stats.matches,
                name: if v10 { self.stores.tables.name(table) } else { String::new() },
                wildcards: if v10 { WILDCARDS_V10 } else { 0 },
                max_entries: if v10 { self.stores.tables.capacity(table) } else { 0 },
            }
        })
    }

    fn port_stats(&self, version: Version, port: PortNo) -> Result<Vec<PortStats>, Refusal> {
        let now_ns = self.env.switch.now_ns();
        let all = self.env.switch.port_counters();
        let mut stats = Vec::with_capacity(all.len());
        for (view, ours, kernel) in all {
            let port_no = PortNo(view.number);
            if port != PortNo::ANY && port != port_no {
                continue;
            }
            if version == Version::V10 && port_no.to_v10().is_none() {
                continue;
            }
            stats.push(PortStats {
                port_no,
                rx_packets: ours.rx_packets,
                tx_packets: ours.tx_packets,
                rx_bytes: ours.rx_bytes,
                tx_bytes: ours.tx_bytes,
                rx_dropped: ours.rx_dropped + kernel.rx_dropped,
                tx_dropped: ours.tx_dropped + kernel.tx_dropped,
                rx_errors: kernel.rx_errors,
                tx_errors: kernel.tx_errors,
                rx_frame_err: kernel.rx_frame_errors,
                rx_over_err: kernel.rx_over_errors,
                rx_crc_err: kernel.rx_crc_errors,
                collisions: kernel.collisions,
                age: match version {
                    Version::V10 => PortStats::NO_AGE,
                    _ => age(view.since_ns, now_ns),
                },
            });
        }
        if stats.is_empty() && port != PortNo::ANY {
            return Err(Refusal::StatsPort { port });
        }
        Ok(stats)
    }

    /// The ports that a request about queues is of, with their queues. A port without egress queues
    /// has none to tell of.
    fn asked_queues(
        &self,
        request: &QueueStatsRequest,
    ) -> Result<Vec<(PortView, Arc<Queues>)>, Refusal> {
        let port = request.port_no;
        //= openflow-1.3.5 §7.3.5.8: a port or queue that is not there is OFPQOFC_BAD_PORT or
        //= OFPQOFC_BAD_QUEUE.
        // 1.0 says ALL for every port.
        let every = port == PortNo::ANY || port == PortNo::ALL;
        if !every && !self.stores.ports.contains(port.0) {
            return Err(Refusal::QueuePort { port });
        }
        let asked = |view: &PortView| every || view.number == port.0;
        let has = |queues: &Queues| {
            let mut queues = queues.counters();
            request.queue_id == QueueId::ALL
                || queues.any(|(queue, _)| queue.id == request.queue_id.0)
        };
        let ports = self.env.switch.ports().into_iter().filter(asked);
        let with_queues = ports.filter_map(|view| {
            let queues = self.env.switch.queues(view.number)?;
            has(&queues).then_some((view, queues))
        });
        let found: Vec<_> = with_queues.collect();
        if found.is_empty() && request.queue_id != QueueId::ALL {
            return Err(Refusal::NoQueue { port, queue: request.queue_id.0 });
        }
        Ok(found)
    }

    fn queue_stats(
        &self,
        version: Version,
        request: &QueueStatsRequest,
    ) -> Result<Vec<QueueStats>, Refusal> {
        let now_ns = self.env.switch.now_ns();
        let mut stats = Vec::new();
        for (view, queues) in self.asked_queues(request)? {
            if version == Version::V10 && PortNo(view.number).to_v10().is_none() {
                continue;
            }
            let age = match version {
                Version::V10 => PortStats::NO_AGE,
                _ => age_of_ns(queues.age_ns(now_ns)),
            };
            let asked = |id: u32| request.queue_id == QueueId::ALL || request.queue_id.0 == id;
            let counted = queues.counters().filter(|(queue, _)| asked(queue.id));
            stats.extend(counted.map(|(queue, counters)| QueueStats {
                port_no: PortNo(view.number),
                queue_id: QueueId(queue.id),
                tx_bytes: counters.tx_bytes,
                tx_packets: counters.tx_packets,
                tx_errors: counters.tx_errors,
                age,
            }));
        }
        Ok(stats)
    }

    /// Queues as they are configured.
    pub(crate) fn queue_configs(
        &self,
        request: &QueueStatsRequest,
    ) -> Result<Vec<QueueConfig>, Refusal> {
        let mut configs = Vec::new();
        for (view, queues) in self.asked_queues(request)? {
            //= openflow-1.3.5 §7.2.2: rates are in 1/10 of a percent, of the port's; above 1000, off.
            let known = u64::from(view.info.curr_speed_kbps) * 1000;
            let speed = queues.config().max_bps.unwrap_or(known);
            let share = |bps: Option<u64>| {
                let of = u128::from(bps?) * 1000;
                let tenths = of.checked_div(u128::from(speed))?;
                Some(u16::try_from(tenths).unwrap_or(u16::MAX))
            };
            let asked = |id: u32| request.queue_id == QueueId::ALL || request.queue_id.0 == id;
            let queues = queues.counters().filter(|(queue, _)| asked(queue.id));
            configs.extend(queues.map(|(queue, _)| {
                QueueConfig {
                    queue_id: QueueId(queue.id),
                    port_no: PortNo(view.number),
                    properties: [
                        share(queue.min_bps).map(QueueProperty::MinRate),
                        share(queue.max_bps).map(QueueProperty::MaxRate),
                    ]
                    .into_iter()
                    .flatten()
                    .collect(),
                }
            }));
        }
        Ok(configs)
    }

    /// What each group has forwarded, by number; at most so many groups.
    pub fn counted_groups(&self, most: usize) -> Vec<(u32, CounterValue)> {
        let of = |(id, entry): (u32, &GroupEntry)| (id, self.env.switch.counter(entry.counter.0));
        self.stores.groups.iter().take(most).map(of).collect()
    }

    /// What each meter has counted, by number; at most so many meters.
    pub fn counted_meters(&self, most: usize) -> Vec<(u32, MeterStats)> {
        self.stores.meters.iter().take(most).map(|(id, _)| (id, self.meter_stats(id))).collect()
    }

    /// The statistics of a group.
    pub fn group_stats(&self, id: u32, entry: &GroupEntry, now_ns: u64) -> GroupStats {
        let total = self.env.switch.counter(entry.counter.0);
        let buckets = entry.bucket_counters.iter().map(|id| self.env.switch.counter(id.0));
        //= openflow-1.3.5 §7.3.5.9: entries and groups that forward here directly.
        let users =
            self.stores.flows.users_of_group(id).count() + self.stores.groups.forwarding_to(id);
        GroupStats {
            group_id: GroupId(id),
            ref_count: users as u32,
            packet_count: total.packets,
            byte_count: total.bytes,
            age: age_of_ns(entry.age_ns(now_ns)),
            buckets: buckets
                .map(|c| BucketStats { packet_count: c.packets, byte_count: c.bytes })
                .collect(),
        }
    }

    /// The statistics of a meter.
    pub fn meter_stats(&self, id: u32) -> MeterStats {
        let counted = self.env.switch.meter_stats(ir::MeterId(id));
        let entry = self.stores.meters.get(id);
        let bands = counted.as_ref().map_or(&[][..], |c| &c.bands);
        let before = entry.map(|m| m.before).unwrap_or_default();
        let now_ns = self.env.switch.now_ns();
        MeterStats {
            meter_id: MeterId(id),
            flow_count: self.stores.flows.users_of_meter(id).count() as u32,
            packet_in_count: before.packets + counted.as_ref().map_or(0, |c| c.input.packets),
            byte_in_count: before.bytes + counted.as_ref().map_or(0, |c| c.input.bytes),
            age: entry.map_or_else(Default::default, |m| age_of_ns(m.age_ns(now_ns))),
            bands: bands
                .iter()
                .map(|c| openflow::BandStats { packet_count: c.packets, byte_count: c.bytes })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stay_below_the_bound_and_the_last_says_so() {
        let mut replies = Vec::new();
        let items = (0..1000).map(|n| {
            let stats = TableStats { active_count: n, ..TableStats::default() };
            (stats, 1000)
        });
        send_all(items, MultipartReplyBody::Table, &mut |m| replies.push(m));
        let mut seen = 0;
        for (i, message) in replies.iter().enumerate() {
            let Message::MultipartReply(part) = message else { panic!("{message:?}") };
            let MultipartReplyBody::Table(tables) = &part.body else { panic!("{part:?}") };
            assert!(tables.len() * 1000 <= PART_MAX);
            assert_eq!(part.more, i + 1 < replies.len());
            tables.iter().for_each(|t| {
                assert_eq!(t.active_count, seen);
                seen += 1;
            });
        }
        assert_eq!(seen, 1000);
    }

    #[test]
    fn an_empty_reply_is_one_message() {
        let mut replies = Vec::new();
        send_all(Vec::<(TableStats, usize)>::new(), MultipartReplyBody::Table, &mut |m| {
            replies.push(m);
        });
        let empty = MultipartReply { more: false, body: MultipartReplyBody::Table(Vec::new()) };
        assert_eq!(replies, [Message::MultipartReply(empty)]);
    }
}

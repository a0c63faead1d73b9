//! What can be chosen of a measurement; a report tells it.

use crate::arrivals::Arrivals;
use crate::filter::Filter;
use crate::interrupt::Interrupt;
use crate::lua::Script;
use crate::record::Recording;
use crate::traffic::Frames;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// What can be chosen.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// What all random choices begin from.
    pub seed: u64,
    /// Probes a second.
    pub rate_pps: f64,
    /// How they follow each other.
    #[serde(serialize_with = "as_text")]
    pub arrivals: Arrivals,
    /// Probes of a run.
    pub probes: u32,
    /// Lengths of frames, in bytes, with the frame check sequence (RFC 2544 §9.1).
    pub sizes: Vec<usize>,
    /// Rules that are added at once.
    pub batches: Vec<u32>,
    /// Times that a batch is added anew to look at barriers.
    pub barrier_rounds: u32,
    /// Echo requests, and how many a second.
    pub echoes: u32,
    /// Likewise.
    pub echo_pps: f64,
    /// Packet-ins and packet-outs, and how many a second.
    pub punts: u32,
    /// Likewise.
    pub punt_pps: f64,
    /// More rates at which frames of each size are forwarded, in probes a second.
    pub more_rates_pps: Vec<f64>,
    /// Probes of the long run that looks for rare losses, and how many a second.
    pub loss_probes: u32,
    /// Likewise.
    pub loss_pps: f64,
    /// How long each trial of a search for a rate is, in milliseconds.
    pub trial_ms: u32,
    /// The highest rate that is searched, in frames a second.
    pub rate_max_pps: f64,
    /// The share of loss that the second search bears.
    pub loss_goal: f64,
    /// The highest rate of packet-ins and packet-outs that is searched.
    pub punt_max_pps: f64,
    /// Rules that are in the table before a batch is added.
    pub occupancies: Vec<u32>,
    /// Flow entries that are asked for while frames are forwarded.
    pub polled_entries: u32,
    /// How long rules are changed without a pause, in milliseconds.
    pub update_ms: u32,
    /// The latest that counters may be right after the last frame, in milliseconds.
    pub fresh_max_ms: u32,
    /// Rates of meters, in packets a second, and how long each is tried, in milliseconds.
    pub meters_pps: Vec<u32>,
    /// Likewise.
    pub meter_ms: u32,
    /// How often the link of a fast-failover group is taken away.
    pub failovers: u32,
    /// Active flows, for flow caches.
    pub active_flows: Vec<u32>,
    /// Masks, for flow caches of wildcards.
    pub masks: Vec<u32>,
    /// Frames a second for both, and for how long, in milliseconds.
    pub cliff_pps: f64,
    /// Likewise.
    pub cliff_ms: u32,
    /// A shell command that restarts the switch.
    pub restart: Option<String>,
    /// The switch's process on this machine, whose processor load is looked at.
    pub switch_pid: Option<u32>,
    /// Traffic of another's making, with its name.
    #[serde(serialize_with = "names")]
    pub described: Vec<(String, Arc<Frames>)>,
    /// Modules of the user's own, asked after ours.
    #[serde(serialize_with = "script_names")]
    pub scripts: Vec<Script>,
    /// Which frames are captured; others are as if they had not come out.
    #[serde(serialize_with = "filter_text")]
    pub filter: Option<Arc<Filter>>,
    /// Where captured frames are written, too.
    #[serde(skip)]
    pub record: Option<Recording>,
    /// How long rules that a barrier has confirmed are given all the same, in milliseconds.
    pub settle_ms: u32,
    /// How often a disturbed run is tried before it stands as invalid.
    pub attempts: u32,
    /// The share of probes that may miss their slot before a run is disturbed.
    pub late_share_max: f64,
    /// How often each module is asked.
    pub repetitions: u32,
    /// Ends the session, from outside.
    #[serde(skip)]
    pub interrupt: Interrupt,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 1,
            rate_pps: 5000.0,
            arrivals: Arrivals::Constant,
            probes: 10_000,
            sizes: vec![64, 512, 1518],
            batches: vec![1, 10, 100],
            barrier_rounds: 10,
            echoes: 1000,
            echo_pps: 500.0,
            punts: 500,
            punt_pps: 250.0,
            more_rates_pps: Vec::new(),
            loss_probes: 120_000,
            loss_pps: 20_000.0,
            trial_ms: 1000,
            rate_max_pps: 200_000.0,
            loss_goal: 0.005,
            punt_max_pps: 20_000.0,
            occupancies: vec![10, 1000, 10_000],
            polled_entries: 1000,
            update_ms: 2000,
            fresh_max_ms: 2000,
            meters_pps: vec![500, 2000],
            meter_ms: 4000,
            failovers: 3,
            active_flows: vec![1, 100, 10_000, 1_000_000],
            masks: vec![1, 4, 16, 64],
            cliff_pps: 20_000.0,
            cliff_ms: 2000,
            restart: None,
            switch_pid: None,
            described: Vec::new(),
            scripts: Vec::new(),
            filter: None,
            record: None,
            settle_ms: 300,
            attempts: 3,
            late_share_max: 0.01,
            repetitions: 1,
            interrupt: Interrupt::default(),
        }
    }
}

impl Settings {
    /// All rates at which frames are forwarded.
    pub fn rates_pps(&self) -> Vec<f64> {
        [self.rate_pps].into_iter().chain(self.more_rates_pps.iter().copied()).collect()
    }
}

fn names<S: Serializer>(described: &[(String, Arc<Frames>)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(described.iter().map(|(name, _)| name))
}

fn script_names<S: Serializer>(scripts: &[Script], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(scripts.iter().map(|script| &script.name))
}

fn filter_text<S: Serializer>(filter: &Option<Arc<Filter>>, to: S) -> Result<S::Ok, S::Error> {
    match filter {
        Some(filter) => to.serialize_some(filter.text()),
        None => to.serialize_none(),
    }
}

fn as_text<S: Serializer>(arrivals: &Arrivals, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(arrivals)
}

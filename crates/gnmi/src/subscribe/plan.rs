//! What a subscription asks for, checked.

use crate::fault::{Fault, extensions, fault};
use crate::path::{Frame, Selection, resolve};
use crate::proto::get_request::DataType;
use crate::proto::subscribe_request::Request;
use crate::proto::subscription_list::Mode;
use crate::proto::{Path, SubscribeRequest, Subscription, SubscriptionList, SubscriptionMode};
use crate::schema::{Filter, LEAVES};
use crate::value::Written;
use std::time::Duration;

/// Subscriptions of a list, at most.
pub const SUBSCRIPTIONS_MAX: usize = 4096;
/// Nothing is sampled or told again more often.
pub const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Longer is as good as never.
const INTERVAL_MAX: Duration = Duration::from_secs(365 * 86_400);
/// Counters are sampled so often where the target chooses.
pub const CHOSEN: Duration = Duration::from_secs(10);
/// It is looked so often whether a counter has changed that is subscribed to by its changes.
pub const LOOK: Duration = Duration::from_secs(1);

/// When a leaf is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// As it changes, and after each of these times.
    Changes {
        /// The heartbeat.
        heartbeat: Option<Duration>,
    },
    /// After each interval.
    Samples {
        /// The interval.
        interval: Duration,
        /// Only if it has changed.
        suppress: bool,
        /// After each of these times even so.
        heartbeat: Option<Duration>,
    },
}

/// Leaves that are told together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which interface; none for all.
    pub interface: Option<String>,
    /// Rows of the leaves.
    pub rows: Vec<usize>,
    /// The origin that the path named.
    pub origin: String,
    /// When.
    pub when: When,
}

/// A list that is right.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Once, by polls, or as a stream.
    pub mode: Mode,
    /// How values are written.
    pub written: Written,
    /// How paths are written.
    pub frame: Frame,
    /// What there is at first is not told.
    pub updates_only: bool,
    /// What is told.
    pub entries: Vec<Entry>,
    /// Intervals that are shorter than there can be.
    pub raised: u64,
    /// A marking of packets was asked for, which there is none of.
    pub marked: bool,
}

/// The list of a stream's first message.
pub fn first(request: &SubscribeRequest) -> Result<Plan, Fault> {
    extensions(&request.extension)?;
    match &request.request {
        Some(Request::Subscribe(list)) => plan(list),
        Some(Request::Poll(_)) => Err(fault!(
            InvalidArgument,
            "poll: there is no subscription yet; send `subscribe` first"
        )),
        Some(Request::Aliases(_)) => Err(fault!(Unimplemented, "aliases: gNMI has them no more")),
        None => Err(fault!(InvalidArgument, "the message has no `subscribe`")),
    }
}

fn plan(list: &SubscriptionList) -> Result<Plan, Fault> {
    let mode = Mode::try_from(list.mode)
        .map_err(|_| fault!(InvalidArgument, "mode: there is no mode {}", list.mode))?;
    // JSON is what a list has that names no encoding. Some clients then take leaves as they are, and none minds.
    let written = match Written::asked(list.encoding)? {
        Written::Json => Written::Proto,
        other => other,
    };
    let filter = Filter::new(DataType::All as i32, &list.use_models)?;
    if list.use_aliases {
        return Err(fault!(Unimplemented, "use_aliases: gNMI has aliases no more"));
    }
    if list.subscription.is_empty() {
        return Err(fault!(InvalidArgument, "subscription: the list is empty"));
    }
    if list.subscription.len() > SUBSCRIPTIONS_MAX {
        let n = list.subscription.len();
        return Err(fault!(
            ResourceExhausted,
            "{n} subscriptions; a list may have {SUBSCRIPTIONS_MAX}, which may have wildcards"
        ));
    }
    let mut plan = Plan {
        mode,
        written,
        frame: Frame::of(list.prefix.as_ref()),
        updates_only: list.updates_only,
        entries: Vec::new(),
        raised: 0,
        marked: list.qos.as_ref().is_some_and(|qos| qos.marking != 0),
    };
    let root = Path::default();
    for (at, subscription) in list.subscription.iter().enumerate() {
        let path = subscription.path.as_ref().unwrap_or(&root);
        let of =
            |fault: Fault| Fault::new(fault.code, format!("subscription {at}: {}", fault.text));
        let selection = resolve(list.prefix.as_ref(), path).map_err(of)?;
        let rows = selection.leaves().filter(|row| filter.has(&LEAVES[*row])).collect();
        plan.add(subscription, &selection, rows, &path.origin).map_err(of)?;
    }
    Ok(plan)
}

impl Plan {
    fn add(
        &mut self,
        subscription: &Subscription,
        selection: &Selection,
        rows: Vec<usize>,
        origin: &str,
    ) -> Result<(), Fault> {
        let mode = subscription.mode;
        let mode = SubscriptionMode::try_from(mode)
            .map_err(|_| fault!(InvalidArgument, "mode: there is no mode {mode}"))?;
        let chosen = mode == SubscriptionMode::TargetDefined;
        // For lists that are no streams modes mean nothing.
        if self.mode == Mode::Stream && chosen && subscription.sample_interval != 0 {
            return Err(fault!(
                InvalidArgument,
                "sample_interval: with TARGET_DEFINED the target chooses; leave it out or use SAMPLE"
            ));
        }
        let heartbeat = match subscription.heartbeat_interval {
            0 => None,
            ns => Some(self.bounded(ns)),
        };
        let interval = match subscription.sample_interval {
            0 => INTERVAL_MIN,
            ns => self.bounded(ns),
        };
        let mut push = |rows: Vec<usize>, when| {
            if !rows.is_empty() {
                let interface = selection.interface.clone();
                self.entries.push(Entry { interface, rows, origin: origin.to_owned(), when });
            }
        };
        if mode == SubscriptionMode::Sample {
            let suppress = subscription.suppress_redundant;
            // What tells everything each time has no use for a heartbeat.
            let heartbeat = heartbeat.filter(|_| suppress);
            push(rows, When::Samples { interval, suppress, heartbeat });
            return Ok(());
        }
        let (counts, changes) = rows.into_iter().partition(|row| LEAVES[*row].counts);
        let (interval, suppress) = if chosen { (CHOSEN, false) } else { (LOOK, true) };
        push(changes, When::Changes { heartbeat });
        let heartbeat = heartbeat.filter(|_| suppress);
        push(counts, When::Samples { interval, suppress, heartbeat });
        Ok(())
    }

    fn bounded(&mut self, ns: u64) -> Duration {
        let asked = Duration::from_nanos(ns);
        self.raised += u64::from(asked < INTERVAL_MIN);
        asked.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::path::tests::path;
    use crate::proto::{Alias, AliasList, Encoding, Poll, QosMarking};
    use tonic::Code;

    pub(crate) fn subscription(at: &str, mode: SubscriptionMode) -> Subscription {
        Subscription { path: Some(path(at)), mode: mode as i32, ..Subscription::default() }
    }

    pub(crate) fn list(subscription: Vec<Subscription>) -> SubscriptionList {
        let encoding = Encoding::Proto as i32;
        SubscriptionList { subscription, encoding, ..SubscriptionList::default() }
    }

    pub(crate) fn request(list: SubscriptionList) -> SubscribeRequest {
        let request = Some(Request::Subscribe(list));
        SubscribeRequest { request, ..SubscribeRequest::default() }
    }

    fn whens(subscription: Subscription) -> Vec<(usize, When)> {
        let plan = plan(&list(vec![subscription])).unwrap();
        plan.entries.iter().map(|entry| (entry.rows.len(), entry.when)).collect()
    }

    #[test]
    fn the_target_chooses_by_the_leaf() {
        let state = "/interfaces/interface/state";
        let (changes, second) = (When::Changes { heartbeat: None }, Duration::from_secs(1));
        let samples = |interval, suppress| When::Samples { interval, suppress, heartbeat: None };
        let chosen = whens(subscription(state, SubscriptionMode::TargetDefined));
        assert_eq!(chosen, [(11, changes), (9, samples(CHOSEN, false))]);
        let changing = whens(subscription(state, SubscriptionMode::OnChange));
        assert_eq!(changing, [(11, changes), (9, samples(LOOK, true))]);
        let mut sampled = subscription(state, SubscriptionMode::Sample);
        assert_eq!(whens(sampled.clone()), [(20, samples(INTERVAL_MIN, false))]);
        (sampled.sample_interval, sampled.suppress_redundant) = (1_000_000_000, true);
        assert_eq!(whens(sampled.clone()), [(20, samples(second, true))]);
        sampled.heartbeat_interval = 2_000_000_000;
        let heartbeat = Some(2 * second);
        let when = When::Samples { interval: second, suppress: true, heartbeat };
        assert_eq!(whens(sampled.clone()), [(20, when)]);
        // What is shorter than can be is raised, and told.
        (sampled.sample_interval, sampled.heartbeat_interval) = (100, u64::MAX);
        let plan = plan(&list(vec![sampled])).unwrap();
        assert_eq!(plan.raised, 1);
        let When::Samples { interval, heartbeat, .. } = plan.entries[0].when else { panic!() };
        assert_eq!((interval, heartbeat), (INTERVAL_MIN, Some(INTERVAL_MAX)));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = subscription("/interfaces", SubscriptionMode::OnChange);
        let refused = |change: &dyn Fn(&mut SubscriptionList)| {
            let mut list = list(vec![good.clone()]);
            change(&mut list);
            let fault = first(&request(list)).unwrap_err();
            (fault.code, fault.text)
        };
        let invalid = |change: &dyn Fn(&mut SubscriptionList), text: &str| {
            let told = refused(change);
            assert!(told.0 == Code::InvalidArgument && told.1.contains(text), "{told:?}");
        };
        invalid(&|l| l.subscription.clear(), "the list is empty");
        invalid(&|l| l.mode = 7, "no mode 7");
        invalid(&|l| l.subscription[0].mode = 7, "subscription 0: mode: there is no mode 7");
        invalid(
            &|l| (l.subscription[0].mode, l.subscription[0].sample_interval) = (0, 1),
            "the target chooses",
        );
        invalid(&|l| l.encoding = 9, "no encoding 9");
        let written = |encoding: Encoding| {
            let list = SubscriptionList { encoding: encoding as i32, ..list(vec![good.clone()]) };
            first(&request(list)).unwrap().written
        };
        assert_eq!(written(Encoding::Json), Written::Proto);
        assert_eq!(written(Encoding::JsonIetf), Written::JsonIetf);
        assert_eq!(refused(&|l| l.encoding = 3).0, Code::Unimplemented);
        assert_eq!(refused(&|l| l.use_aliases = true).0, Code::Unimplemented);
        let (code, text) = refused(&|l| l.subscription[0].path = Some(path("/interfaces/x")));
        assert!(code == Code::Unimplemented && text.contains("path element 2, x"), "{text}");
        let (code, _) = refused(&|l| l.subscription = vec![good.clone(); SUBSCRIPTIONS_MAX + 1]);
        assert_eq!(code, Code::ResourceExhausted);
        let of = |request| {
            let request = SubscribeRequest { request, ..SubscribeRequest::default() };
            first(&request).unwrap_err().code
        };
        assert_eq!(of(Some(Request::Poll(Poll {}))), Code::InvalidArgument);
        assert_eq!(of(None), Code::InvalidArgument);
        let aliases = AliasList { alias: vec![Alias::default()] };
        assert_eq!(of(Some(Request::Aliases(aliases))), Code::Unimplemented);
        let mut marked = list(vec![good.clone()]);
        marked.qos = Some(QosMarking { marking: 0 });
        assert!(!first(&request(marked.clone())).unwrap().marked);
        marked.qos = Some(QosMarking { marking: 20 });
        assert!(first(&request(marked)).unwrap().marked);
    }
}

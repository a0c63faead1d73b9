//! Requests and streams of a switch that runs: ports put up and down, ports that come and go, clients that do not read.

use gnmi::Gnmi;
use gnmi::proto::g_nmi_server::GNmi as _;
use gnmi::proto::subscribe_request::Request as Asked;
use gnmi::proto::subscribe_response::Response as Told;
use gnmi::proto::subscription_list::Mode;
use gnmi::proto::typed_value::Value;
use gnmi::proto::{
    CapabilityRequest, Encoding, GetRequest, Path, PathElem, Poll, SetRequest, SubscribeRequest,
    SubscribeResponse, Subscription, SubscriptionList, SubscriptionMode, TypedValue, Update,
};
use gnmi::subscribe::{Said, WAITING_MAX};
use port::memory;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use switch::{EngineKind, PortConfig, Switch};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status};

const PATIENCE: Duration = Duration::from_secs(60);

/// A switch of two ports and one that is no interface.
struct Bed {
    gnmi: Gnmi,
    switch: Switch,
    /// All switches there are.
    switches: Arc<Mutex<Vec<Switch>>>,
    far: Vec<memory::Handle>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.switches.lock().unwrap().iter().for_each(Switch::stop);
    }
}

fn add(switch: &Switch, number: u32) -> memory::Handle {
    add_named(switch, number, &format!("p{number}"))
}

fn add_named(switch: &Switch, number: u32, name: &str) -> memory::Handle {
    let (port, far) = memory::port(name, memory::Config::default()).unwrap();
    switch.add_port(Some(number), Box::new(port)).unwrap();
    far
}

fn started() -> Switch {
    let config = switch::Config {
        program: testkit::station::program(),
        workers: 1,
        cpus: Vec::new(),
        punt_rate: 1000,
        engine: EngineKind::Interp,
        validate: None,
    };
    Switch::start(config).unwrap()
}

fn bed() -> Bed {
    let switch = started();
    let far = [1, 2, 510].map(|number| add(&switch, number)).into();
    let switches = Arc::new(Mutex::new(vec![switch.clone()]));
    let all = switches.clone();
    let listed = Arc::new(move || all.lock().unwrap().clone());
    Bed { gnmi: Gnmi::new(switch.clone(), vec![510], listed).unwrap(), switch, switches, far }
}

/// `/interfaces/interface[name=p1]/state`
fn path(text: &str) -> Path {
    let elem = text.split('/').filter(|e| !e.is_empty()).map(|e| {
        let (name, key) = e.split_once("[name=").unwrap_or((e, ""));
        let key = key.strip_suffix(']').map(|value| ("name".to_owned(), value.to_owned()));
        PathElem { name: name.to_owned(), key: key.into_iter().collect() }
    });
    Path { elem: elem.collect(), ..Path::default() }
}

/// A client's stream.
struct Client {
    says: Sender<Result<SubscribeRequest, Status>>,
    told: Receiver<Said>,
}

impl Client {
    async fn new(bed: &Bed, request: SubscribeRequest) -> Client {
        let (says, said) = channel(16);
        says.send(Ok(request)).await.unwrap();
        let told = bed.gnmi.subscribe(ReceiverStream::new(said)).unwrap();
        Client { says, told }
    }

    async fn of(bed: &Bed, mode: Mode, subscription: Subscription) -> Client {
        Client::new(bed, request(list(mode, vec![subscription]))).await
    }

    async fn next(&mut self) -> Result<SubscribeResponse, Status> {
        let told = tokio::time::timeout(PATIENCE, self.told.recv()).await.expect("it is told");
        told.unwrap_or_else(|| Err(Status::ok("the end")))
    }

    /// Leaf and value of each update of the next notification, or what has gone, or `sync`.
    async fn line(&mut self) -> String {
        let notification = match self.next().await.unwrap().response.unwrap() {
            Told::Update(notification) => notification,
            Told::SyncResponse(true) => return "sync".to_owned(),
            other => panic!("{other:?}"),
        };
        assert!(notification.timestamp > 1_600_000_000_000_000_000);
        let updates = notification.update.iter().map(|update| {
            let elem = &update.path.as_ref().unwrap().elem;
            let value = match update.val.clone().unwrap().value.unwrap() {
                Value::StringVal(text) => text,
                Value::UintVal(n) => n.to_string(),
                other => format!("{other:?}"),
            };
            let lost = match update.duplicates {
                0 => String::new(),
                n => format!("+{n}"),
            };
            format!("{} {}={value}{lost}", elem[1].key["name"], elem.last().unwrap().name)
        });
        let gone =
            notification.delete.iter().map(|path| format!("{} gone", path.elem[1].key["name"]));
        updates.chain(gone).collect::<Vec<_>>().join(", ")
    }

    async fn lines(&mut self, n: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..n {
            lines.push(self.line().await);
        }
        lines
    }
}

fn list(mode: Mode, subscription: Vec<Subscription>) -> SubscriptionList {
    let (mode, encoding) = (mode as i32, Encoding::Proto as i32);
    SubscriptionList { mode, encoding, subscription, ..SubscriptionList::default() }
}

fn request(list: SubscriptionList) -> SubscribeRequest {
    SubscribeRequest { request: Some(Asked::Subscribe(list)), ..SubscribeRequest::default() }
}

fn subscription(text: &str, mode: SubscriptionMode) -> Subscription {
    Subscription { path: Some(path(text)), mode: mode as i32, ..Subscription::default() }
}

fn status() -> Subscription {
    subscription("/interfaces/interface/state/oper-status", SubscriptionMode::OnChange)
}

async fn enable(bed: &Bed, name: &str, enabled: bool) -> Result<(), Status> {
    let val = Some(TypedValue { value: Some(Value::BoolVal(enabled)) });
    let path = Some(path(&format!("/interfaces/interface[name={name}]/config/enabled")));
    let update = vec![Update { path, val, ..Update::default() }];
    let request = SetRequest { update, ..SetRequest::default() };
    bed.gnmi.set(Request::new(request)).await.map(drop)
}

async fn values(bed: &Bed, text: &str) -> Result<Vec<Value>, Status> {
    let (path, encoding) = (vec![path(text)], Encoding::Proto as i32);
    let request = GetRequest { path, encoding, ..GetRequest::default() };
    let response = bed.gnmi.get(Request::new(request)).await?.into_inner();
    let updates = response.notification.into_iter().flat_map(|n| n.update);
    Ok(updates.map(|u| u.val.unwrap().value.unwrap()).collect())
}

#[tokio::test]
async fn a_port_is_put_down_and_up() {
    let bed = bed();
    let capabilities = bed.gnmi.capabilities(Request::new(CapabilityRequest::default())).await;
    let capabilities = capabilities.unwrap().into_inner();
    assert_eq!(capabilities.supported_models[0].name, "openconfig-interfaces");
    assert_eq!(capabilities.supported_encodings.len(), 3);
    let names = values(&bed, "/interfaces/interface/state/name").await.unwrap();
    assert_eq!(names, ["p1", "p2"].map(|name| Value::StringVal(name.to_owned())));
    let changed = "/interfaces/interface[name=p1]/state/last-change";
    let before = values(&bed, changed).await.unwrap();
    assert_eq!(before, values(&bed, changed).await.unwrap());
    enable(&bed, "p1", false).await.unwrap();
    assert!(bed.switch.port(1).unwrap().config.down);
    let of = |leaf: &str| format!("/interfaces/interface[name=p1]/{leaf}");
    for leaf in ["state/oper-status", "state/admin-status"] {
        assert_eq!(values(&bed, &of(leaf)).await.unwrap(), [Value::StringVal("DOWN".into())]);
    }
    assert_eq!(values(&bed, &of("config/enabled")).await.unwrap(), [Value::BoolVal(false)]);
    assert!(values(&bed, changed).await.unwrap() != before);
    // What else is configured of the port stays.
    let config = PortConfig { down: true, no_forward: true, ..PortConfig::default() };
    bed.switch.configure_port(1, config).unwrap();
    enable(&bed, "p1", true).await.unwrap();
    assert_eq!(bed.switch.port(1).unwrap().config, PortConfig { down: false, ..config });
    assert_eq!(enable(&bed, "p9", true).await.unwrap_err().code(), Code::NotFound);
    let hidden = enable(&bed, "p510", false).await.unwrap_err();
    assert_eq!(hidden.code(), Code::NotFound);
    let flaps = of("state/counters/interface-transitions");
    assert_eq!(values(&bed, &flaps).await.unwrap(), [Value::UintVal(2)]);
}

#[tokio::test]
async fn counters_are_those_of_the_port() {
    let bed = bed();
    for n in 0..3u32 {
        assert!(bed.far[0].inject_bytes(&testkit::station::frame(5, n)));
    }
    let pkts = "/interfaces/interface[name=p1]/state/counters/in-pkts";
    let until = std::time::Instant::now() + PATIENCE;
    while values(&bed, pkts).await.unwrap() != [Value::UintVal(3)] {
        assert!(std::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let octets = values(&bed, "/interfaces/interface[name=p1]/state/counters/in-octets").await;
    let (_, counters, _) = bed.switch.counters_of_port(1).unwrap();
    assert_eq!(octets.unwrap(), [Value::UintVal(counters.rx_bytes)]);
}

#[tokio::test]
async fn changes_are_streamed_in_order() {
    let bed = bed();
    let mut client = Client::of(&bed, Mode::Stream, status()).await;
    assert_eq!(client.lines(3).await, ["p1 oper-status=UP", "p2 oper-status=UP", "sync"]);
    assert_eq!(bed.gnmi.streams(), 1);
    for round in 0..20 {
        enable(&bed, "p1", round % 2 == 1).await.unwrap();
    }
    for round in 0..20 {
        let word = if round % 2 == 1 { "UP" } else { "DOWN" };
        assert_eq!(client.line().await, format!("p1 oper-status={word}"));
    }
    bed.far[1].set_carrier(false);
    assert_eq!(client.line().await, "p2 oper-status=DOWN");
    let _far = add(&bed.switch, 3);
    assert_eq!(client.line().await, "p3 oper-status=UP");
    bed.switch.remove_port(3).unwrap();
    assert_eq!(client.line().await, "p3 gone");
    // The CPU port is no interface: what happens to it is not told.
    bed.switch.remove_port(510).unwrap();
    bed.far[1].set_carrier(true);
    assert_eq!(client.line().await, "p2 oper-status=UP");
    // A client that has said all still listens; one that has gone is let go.
    drop(client.says);
    let (says, _said) = channel(1);
    let mut client = Client { says, told: client.told };
    enable(&bed, "p2", false).await.unwrap();
    assert_eq!(client.line().await, "p2 oper-status=DOWN");
    drop(client);
    let until = std::time::Instant::now() + PATIENCE;
    while bed.gnmi.streams() > 0 {
        assert!(std::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Ports of every switch are interfaces, of such that come later, too; those that are hidden are hidden of the first.
#[tokio::test]
async fn switches_come_and_go() {
    let bed = bed();
    let mut client = Client::of(&bed, Mode::Stream, status()).await;
    assert_eq!(client.lines(3).await, ["p1 oper-status=UP", "p2 oper-status=UP", "sync"]);
    let other = started();
    let far = [add_named(&other, 1, "b1"), add_named(&other, 510, "b510")];
    bed.switches.lock().unwrap().push(other.clone());
    assert_eq!(client.lines(2).await, ["b1 oper-status=UP", "b510 oper-status=UP"]);
    let names = values(&bed, "/interfaces/interface/state/name").await.unwrap();
    let all = ["p1", "p2", "b1", "b510"].map(|name| Value::StringVal(name.to_owned()));
    assert_eq!(names, all);
    // The number is that of another port of the first switch, which stays up.
    enable(&bed, "b1", false).await.unwrap();
    assert_eq!(client.line().await, "b1 oper-status=DOWN");
    assert!(other.port(1).unwrap().config.down && !bed.switch.port(1).unwrap().config.down);
    far[1].set_carrier(false);
    assert_eq!(client.line().await, "b510 oper-status=DOWN");
    assert!(far[0].inject_bytes(&testkit::station::frame(5, 1)));
    enable(&bed, "b1", true).await.unwrap();
    assert_eq!(client.line().await, "b1 oper-status=UP");
    assert!(far[0].inject_bytes(&testkit::station::frame(5, 2)));
    let until = std::time::Instant::now() + PATIENCE;
    let counted = |name: &str| format!("/interfaces/interface[name={name}]/state/counters/in-pkts");
    while values(&bed, &counted("b1")).await.unwrap() == [Value::UintVal(0)] {
        assert!(std::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(values(&bed, &counted("p1")).await.unwrap(), [Value::UintVal(0)]);
    // A bridge that is removed loses its ports first, and is gone then.
    other.remove_ports(&[1, 510]).unwrap();
    bed.switches.lock().unwrap().pop();
    other.stop();
    assert_eq!(client.lines(2).await, ["b1 gone", "b510 gone"]);
    assert_eq!(values(&bed, "/interfaces/interface/state/name").await.unwrap(), all[..2]);
    assert_eq!(enable(&bed, "b1", true).await.unwrap_err().code(), Code::NotFound);
    enable(&bed, "p1", false).await.unwrap();
    assert_eq!(client.line().await, "p1 oper-status=DOWN");
}

#[tokio::test]
async fn only_updates_are_told_where_that_is_asked() {
    let bed = bed();
    let only = |mode, subscription| {
        let list = SubscriptionList { updates_only: true, ..list(mode, vec![subscription]) };
        request(list)
    };
    let mut client = Client::new(&bed, only(Mode::Stream, status())).await;
    assert_eq!(client.line().await, "sync");
    enable(&bed, "p2", false).await.unwrap();
    assert_eq!(client.line().await, "p2 oper-status=DOWN");
    let mut client = Client::new(&bed, only(Mode::Once, status())).await;
    assert_eq!(client.line().await, "sync");
    assert_eq!(client.next().await.unwrap_err().code(), Code::Ok, "the stream ends");
}

#[tokio::test]
async fn lists_are_told_once_and_by_polls() {
    let bed = bed();
    let mut client = Client::of(&bed, Mode::Once, status()).await;
    assert_eq!(client.lines(3).await, ["p1 oper-status=UP", "p2 oper-status=UP", "sync"]);
    assert_eq!(client.next().await.unwrap_err().code(), Code::Ok);
    let one = subscription("/interfaces/interface[name=p2]/state/id", SubscriptionMode::OnChange);
    let mut client = Client::of(&bed, Mode::Poll, one.clone()).await;
    let poll =
        || SubscribeRequest { request: Some(Asked::Poll(Poll {})), ..SubscribeRequest::default() };
    assert_eq!(client.lines(2).await, ["p2 id=2", "sync"]);
    for _ in 0..3 {
        client.says.send(Ok(poll())).await.unwrap();
        assert_eq!(client.lines(2).await, ["p2 id=2", "sync"]);
    }
    client.says.send(Ok(request(list(Mode::Poll, vec![one])))).await.unwrap();
    let refused = client.next().await.unwrap_err();
    assert!(
        refused.code() == Code::InvalidArgument && refused.message().contains("another stream")
    );
    // What is not there yet is no error, and told when it comes.
    let later = subscription("/interfaces/interface[name=p7]/state/id", SubscriptionMode::OnChange);
    let mut client = Client::of(&bed, Mode::Stream, later).await;
    assert_eq!(client.line().await, "sync");
    let _far = add(&bed.switch, 7);
    assert_eq!(client.line().await, "p7 id=7");
    client.says.send(Ok(poll())).await.unwrap();
    assert_eq!(client.next().await.unwrap_err().code(), Code::InvalidArgument);
    let mut client = Client::new(&bed, poll()).await;
    assert_eq!(client.next().await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn samples_come_again_and_again() {
    let bed = bed();
    let octets = "/interfaces/interface[name=p1]/state/counters/in-octets";
    // 100 ns are as short as can be.
    let sample =
        Subscription { sample_interval: 100, ..subscription(octets, SubscriptionMode::Sample) };
    let mut client = Client::of(&bed, Mode::Stream, sample).await;
    assert_eq!(client.lines(2).await, ["p1 in-octets=0", "sync"]);
    assert_eq!(client.lines(5).await, ["p1 in-octets=0"; 5]);
    assert!(bed.switch.tallies().contains(&("gnmi_interval_raised", 1)));
    let beats = Subscription { heartbeat_interval: 20_000_000, ..status() };
    let mut client = Client::of(&bed, Mode::Stream, beats).await;
    let both = ["p1 oper-status=UP", "p2 oper-status=UP"];
    assert_eq!(client.lines(3).await, [both[0], both[1], "sync"]);
    assert_eq!(client.lines(4).await, [both[0], both[1], both[0], both[1]]);
}

/// One client does not read. It misses what was between, knows how much, and has the last value in the end; another one
/// has everything meanwhile.
#[tokio::test]
async fn who_does_not_read_loses_its_own() {
    let bed = bed();
    let mut slow = Client::of(&bed, Mode::Stream, status()).await;
    let mut quick = Client::of(&bed, Mode::Stream, status()).await;
    for client in [&mut slow, &mut quick] {
        assert_eq!(client.lines(3).await[2], "sync");
    }
    let rounds = 2 * WAITING_MAX + 1;
    for round in 0..rounds {
        let config = PortConfig { down: round % 2 == 0, ..PortConfig::default() };
        bed.switch.configure_port(1, config).unwrap();
        assert_eq!(quick.line().await, format!("p1 oper-status={}", ["DOWN", "UP"][round % 2]));
    }
    let until = std::time::Instant::now() + PATIENCE;
    let lost = || bed.switch.tallies().iter().any(|tally| tally.0 == "gnmi_stream_lost");
    while !lost() {
        assert!(std::time::Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for round in 0..WAITING_MAX {
        assert_eq!(slow.line().await, format!("p1 oper-status={}", ["DOWN", "UP"][round % 2]));
    }
    // An even number was told; the last value is told with the number of those that were lost.
    let last = slow.line().await;
    assert!(last.starts_with("p1 oper-status=DOWN+"), "{last}");
}

#[tokio::test]
async fn there_are_so_many_streams() {
    let bed = bed();
    let mut open = Vec::new();
    for _ in 0..gnmi::server::STREAMS_MAX {
        open.push(Client::of(&bed, Mode::Stream, status()).await);
    }
    let (_says, said) = channel(1);
    let refused = bed.gnmi.subscribe(ReceiverStream::new(said)).unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
}

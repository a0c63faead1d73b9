//! What stands between controller and switch, and lies.

use crate::path::Bend;
use openflow::FlowModCommand;
use openflow::Message;
use openflow::MultipartReplyBody;
use openflow::Version;
use openflow::Xid;
use openflow::codec;
use openflow::codec::Frame;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

/// How the shim lies.
#[derive(Clone, Copy, Default)]
pub(crate) struct Lies {
    /// Flow-mods reach the switch so late, but barriers are answered at once.
    pub(crate) early_barrier: Option<Duration>,
    /// One in so many frames is lost on its way out.
    pub(crate) loses: Option<u32>,
    /// A counter that is told wrongly, and by how much.
    pub(crate) miscounts: Option<(Counter, u64)>,
    /// What flow entries count is told so late.
    pub(crate) stale: Option<Duration>,
    /// Every second rule is added so long before the one that was sent before it.
    pub(crate) reorders: Option<Duration>,
    /// One in so many echo requests is not answered.
    pub(crate) deaf: Option<u32>,
    /// What the path does to frames on their way out.
    pub(crate) bends: Option<Bend>,
    /// Of these messages, one in so many never reaches the switch.
    pub(crate) forgets: Option<(Which, u32)>,
    /// Messages from the switch that are sent twice.
    pub(crate) doubles: Option<Which>,
    /// The channel is closed, once, at so many of these messages.
    pub(crate) closes: Option<(Which, u32)>,
    /// How often it cannot be opened again then.
    pub(crate) crashes: u32,
    /// What the switch says from then on is none of OpenFlow.
    pub(crate) babbles: bool,
}

/// A counter of the switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Counter {
    FlowPackets,
    FlowBytes,
    PortTx,
    PortRxBytes,
    PortRxErrors,
    PortTxDropped,
    /// In thousandths.
    PortRxShare,
    TableLookups,
    Aggregate,
}

/// Which messages are meant.
pub(crate) type Which = fn(&Message) -> bool;

/// Passes messages on in both directions, lying.
pub(crate) fn shim(controller: TcpStream, switch: TcpStream, version: Version, lies: Lies) {
    let up = Arc::new(Mutex::new(controller.try_clone().unwrap()));
    let back = {
        let (mut switch, up) = (switch.try_clone().unwrap(), up.clone());
        std::thread::spawn(move || {
            let mut first_counted = None;
            each(&mut switch, |bytes| {
                let Some(bytes) = bytes else { return true };
                let bytes = miscount(version, bytes, lies, &mut first_counted);
                if let (Some(doubles), Ok((_, m))) = (lies.doubles, codec::decode(version, &bytes))
                    && doubles(&m)
                    && up.lock().unwrap().write_all(&bytes).is_err()
                {
                    return false;
                }
                up.lock().unwrap().write_all(&bytes).is_ok()
            });
            let _ = up.lock().unwrap().shutdown(Shutdown::Both);
        })
    };
    let (mut controller, mut down) = (controller, switch);
    let (mut echoes, mut forgotten, mut closes) = (0, 0, 0);
    let mut held = Vec::new();
    if lies.reorders.is_some() {
        // What comes within this time of what came before is of one batch.
        controller.set_read_timeout(Some(Duration::from_millis(30))).unwrap();
    }
    each(&mut controller, |bytes| {
        let Some(bytes) = bytes else {
            return release(&mut down, &mut held, lies.reorders.unwrap_or_default());
        };
        let decoded = codec::decode(version, &bytes);
        if lies.reorders.is_some() {
            if let Ok((_, message)) = decoded {
                held.push((message, bytes));
            }
            return true;
        }
        match (&decoded, lies) {
            (Ok((xid, Message::BarrierRequest)), Lies { early_barrier: Some(delay), .. }) => {
                // Says yes, and lets what came before wait.
                let reply = codec::encode(version, *xid, &Message::BarrierReply).unwrap();
                let said = up.lock().unwrap().write_all(&reply).is_ok();
                std::thread::sleep(delay);
                return said;
            }
            (Ok((_, Message::FlowMod(_))), Lies { early_barrier: Some(_), .. }) => {
                let (mut down, bytes) = (down.try_clone().unwrap(), bytes.clone());
                let delay = lies.early_barrier.unwrap();
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    let _ = down.write_all(&bytes);
                });
                return true;
            }
            (Ok((_, message)), Lies { forgets: Some((which, n)), .. }) if which(message) => {
                forgotten += 1;
                if forgotten % n == 0 {
                    return true;
                }
            }
            (Ok((_, message)), Lies { closes: Some((which, n)), .. }) if which(message) => {
                closes += 1;
                if closes == n && lies.babbles {
                    let _ = up.lock().unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                    return true;
                }
                if closes == n {
                    return false;
                }
            }
            (Ok((_, Message::EchoRequest(_))), Lies { deaf: Some(n), .. }) => {
                echoes += 1;
                if echoes % n == 0 {
                    return true;
                }
            }
            _ => {}
        }
        down.write_all(&bytes).is_ok()
    });
    let _ = down.shutdown(Shutdown::Both);
    back.join().unwrap();
}

/// Sends what was held, with each second rule before the one that it followed; then the barriers.
pub(crate) fn release(
    down: &mut TcpStream,
    held: &mut Vec<(Message, Vec<u8>)>,
    apart: Duration,
) -> bool {
    let is_rule =
        |m: &Message| matches!(m, Message::FlowMod(f) if f.command == FlowModCommand::Add);
    let (mut rules, others): (Vec<_>, Vec<_>) = held.drain(..).partition(|(m, _)| is_rule(m));
    let only_rules = others.iter().all(|(m, _)| *m == Message::BarrierRequest);
    if !only_rules {
        // Removing all and adding one are not to be swapped.
        return others.iter().chain(&rules).all(|(_, bytes)| down.write_all(bytes).is_ok());
    }
    for pair in rules.chunks_mut(2) {
        pair.reverse();
        for (i, (_, bytes)) in pair.iter().enumerate() {
            if i > 0 {
                std::thread::sleep(apart);
            }
            if down.write_all(bytes).is_err() {
                return false;
            }
        }
    }
    others.iter().all(|(_, bytes)| down.write_all(bytes).is_ok())
}

/// Hands over each message until there are no more or the other side takes none; and nothing, when none
/// has come within the stream's time.
pub(crate) fn each(stream: &mut TcpStream, mut take: impl FnMut(Option<Vec<u8>>) -> bool) {
    let (mut input, mut chunk) = (Vec::new(), [0; 65536]);
    loop {
        while let Frame::Message { length } = codec::frame(&input) {
            if !take(Some(input.drain(..length).collect())) {
                return;
            }
        }
        match stream.read(&mut chunk) {
            Ok(n) if n > 0 => input.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if !take(None) {
                    return;
                }
            }
            _ => return,
        }
    }
}

pub(crate) fn miscount(
    version: Version,
    bytes: Vec<u8>,
    lies: Lies,
    first_counted: &mut Option<Instant>,
) -> Vec<u8> {
    if lies.miscounts.is_none() && lies.stale.is_none() {
        return bytes;
    }
    let Ok((Xid(xid), Message::MultipartReply(mut reply))) = codec::decode(version, &bytes) else {
        return bytes;
    };
    let lie = |counter| match lies.miscounts {
        Some((wrong, by)) if wrong == counter => by,
        _ => 0,
    };
    match &mut reply.body {
        MultipartReplyBody::Flow(entries) => {
            for entry in entries.iter_mut().filter(|e| e.priority == 1000) {
                if entry.packet_count > 0 {
                    entry.packet_count += lie(Counter::FlowPackets);
                    entry.byte_count += lie(Counter::FlowBytes);
                    first_counted.get_or_insert_with(Instant::now);
                }
                if lies.stale.is_some_and(|by| first_counted.is_some_and(|f| f.elapsed() < by)) {
                    (entry.packet_count, entry.byte_count) = (0, 0);
                }
            }
        }
        MultipartReplyBody::PortStats(ports) => {
            for p in ports.iter_mut().filter(|p| p.rx_packets + p.tx_packets > 500) {
                p.tx_packets += p.tx_packets / 10 * lie(Counter::PortTx);
                p.rx_packets += p.rx_packets * lie(Counter::PortRxShare) / 1000;
                p.rx_bytes += p.rx_packets / 10 * lie(Counter::PortRxBytes);
                p.rx_errors += p.rx_packets / 100 * lie(Counter::PortRxErrors);
                p.tx_dropped += p.tx_packets / 100 * lie(Counter::PortTxDropped);
            }
        }
        MultipartReplyBody::Table(tables) if lie(Counter::TableLookups) > 0 => {
            tables.iter_mut().for_each(|t| t.lookup_count /= 2);
        }
        MultipartReplyBody::Aggregate(sum) => sum.packet_count += lie(Counter::Aggregate),
        _ => {}
    }
    codec::encode(version, Xid(xid), &Message::MultipartReply(reply)).unwrap()
}

/// A rule of a module is added or changed.
pub(crate) fn is_new_rule(message: &Message) -> bool {
    matches!(message, Message::FlowMod(f) if f.priority == 1000 && f.command != FlowModCommand::Delete)
}

/// One is removed, by itself.
pub(crate) fn is_removal(message: &Message) -> bool {
    matches!(message, Message::FlowMod(f) if f.command == FlowModCommand::DeleteStrict)
}

pub(crate) fn is_echo(message: &Message) -> bool {
    matches!(message, Message::EchoRequest(_))
}

//! `trace`: what would happen to a packet, step by step.

use super::entry;
use crate::protocol::Reply;
use crate::verb::{At, Verb};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use switch::Switch;

/// The question.
#[derive(Debug, Serialize, Deserialize)]
pub struct Trace {
    /// The port it comes in by.
    pub in_port: u32,
    /// Its bytes in hexadecimal, or what it matches, as `ovs-appctl ofproto/trace` takes it.
    pub packet: String,
}

/// The answer.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    /// The version of the pipeline.
    pub version: u64,
    /// The port it comes in by.
    pub in_port: u32,
    /// That port's name.
    pub in_name: Option<String>,
    /// As it came in.
    pub packet: Frame,
    /// What became of it.
    pub verdict: String,
    /// Steps, a line each.
    pub steps: Vec<String>,
    /// What goes out.
    pub outputs: Vec<Output>,
    /// Copies for the control side.
    pub punts: Vec<Punt>,
    /// Services on the packet's way that were not called.
    pub not_called: Vec<String>,
}

/// A frame.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// In a line.
    pub summary: String,
    /// Its bytes in hexadecimal.
    pub hex: String,
}

/// A frame that goes out.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Output {
    /// By this port.
    pub port: u32,
    /// That port's name.
    pub name: Option<String>,
    /// The frame.
    pub packet: Frame,
}

/// A copy for the control side.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Punt {
    /// Why.
    pub reason: String,
    /// The frame.
    pub packet: Frame,
}

impl Verb for Trace {
    const NAME: &'static str = "trace";
    const ABOUT: &'static str = "What happens to a packet, step by step";
    type Answer = Answer;

    fn answer(self, at: &At<'_>) -> Result<Reply<Answer>, String> {
        let bytes = frame_of(self.in_port, &self.packet)?;
        check_port(at.switch()?, self.in_port)?;
        Ok(Reply::Answer(trace(at.switch()?, self.in_port, &bytes)))
    }

    fn text(answer: &Answer) -> String {
        let port = |number: u32, name: &Option<String>| match name {
            Some(name) => format!("{number} ({name})"),
            None => number.to_string(),
        };
        let came = port(answer.in_port, &answer.in_name);
        let mut out = format!("in {came}: {}\n", answer.packet.summary);
        // Writing to a string does not fail.
        for step in &answer.steps {
            let _ = writeln!(out, "  {step}");
        }
        for service in &answer.not_called {
            let _ = writeln!(
                out,
                "  service {service} was not called, because it would remember this packet; \
                 the rest holds if it lets the packet go on unchanged",
            );
        }
        for o in &answer.outputs {
            let _ = writeln!(out, "out {}: {}", port(o.port, &o.name), o.packet.summary);
        }
        for p in &answer.punts {
            let _ = writeln!(out, "to the controller ({}): {}", p.reason, p.packet.summary);
        }
        out
    }
}

/// The frame that a text means.
fn frame_of(in_port: u32, text: &str) -> Result<Vec<u8>, String> {
    if let Some(bytes) = hex(text) {
        return Ok(bytes);
    }
    let described = openflow::syntax::parse_packet(text)
        .map_err(|error| format!("the packet is neither hexadecimal nor a flow: {error}"))?;
    match described.in_port {
        Some(said) if said != in_port => {
            Err(format!("the packet says in_port={said}, the question {in_port}"))
        }
        _ => Ok(described.bytes),
    }
}

/// A port that frames can come in by, or the controller's, that packet-outs name.
fn check_port(switch: &Switch, in_port: u32) -> Result<(), String> {
    let ports = switch.ports();
    let known = |number: u32| ports.iter().any(|port| port.number == number);
    if known(in_port) || in_port == openflow::PortNo::CONTROLLER.0 {
        return Ok(());
    }
    let there: Vec<String> =
        ports.iter().map(|port| format!("{} ({})", port.number, port.info.name)).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Err(format!("there is no port {in_port}; there are: {there}"))
}

/// What would happen to a packet that came in by this port, whether or not the switch has it.
pub fn trace(switch: &Switch, in_port: u32, bytes: &[u8]) -> Answer {
    let traced = switch.trace(in_port, bytes);
    let ports = switch.ports();
    let name = |number: u32| ports.iter().find(|p| p.number == number).map(|p| p.info.name.clone());
    let frame = |bytes: &[u8]| Frame { summary: wire::summary(bytes), hex: digits(bytes) };
    let outputs = traced.outputs.iter();
    let punts = traced.punts.iter();
    Answer {
        version: traced.version,
        in_port,
        in_name: name(in_port),
        packet: frame(bytes),
        verdict: traced.verdict.to_string(),
        steps: traced.trace.lines_with(&mut |table, entry| entry::line(switch, table, entry)),
        outputs: outputs
            .map(|(port, bytes)| Output { port: *port, name: name(*port), packet: frame(bytes) })
            .collect(),
        punts: punts
            .map(|(reason, bytes)| Punt { reason: reason.word().to_owned(), packet: frame(bytes) })
            .collect(),
        not_called: traced.not_called.clone(),
    }
}

/// Bytes in hexadecimal, white space and colons between them allowed; at least an Ethernet header.
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .trim_start_matches("0x")
        .bytes()
        .filter(|b| !b.is_ascii_whitespace() && *b != b':')
        .collect();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Bytes in hexadecimal, as [`hex`] reads them.
pub fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_with_and_without_separators() {
        assert_eq!(hex("0x00ff"), Some(vec![0, 255]));
        assert_eq!(hex("00:ff 01"), Some(vec![0, 255, 1]));
        assert_eq!(hex("0"), None);
        assert_eq!(hex("in_port=1"), None);
        assert_eq!(hex(""), None);
    }

    #[test]
    fn a_packet_is_written_as_octets_or_as_a_flow() {
        assert_eq!(frame_of(1, "00:ff"), Ok(vec![0, 255]));
        let frame = frame_of(1, "in_port=1,tcp,nw_dst=10.0.0.2,tp_dst=80").unwrap();
        assert_eq!((&frame[30..34], &frame[36..38]), (&[10, 0, 0, 2][..], &[0, 80][..]));
        assert_eq!(
            frame_of(2, "in_port=1,tcp").unwrap_err(),
            "the packet says in_port=1, the question 2"
        );
        let wrong = frame_of(1, "tpc").unwrap_err();
        assert!(wrong.starts_with("the packet is neither hexadecimal nor a flow: "), "{wrong}");
    }
}

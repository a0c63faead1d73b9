//! The text of `ovs-appctl bfd/show`.

use std::fmt::Write;

use crate::packet::flags;
use crate::session::Session;

impl Session {
    /// What `bfd/show` says of this session, from the second line on. The first is `---- NAME ----`.
    pub fn show(&self, now_ms: u64) -> String {
        let mut text = String::new();
        let from_now = |at: Option<u64>| {
            let at = at.unwrap_or(now_ms);
            match at.checked_sub(now_ms) {
                Some(later) => format!("now +{later}ms"),
                None => format!("now -{}ms", now_ms - at),
            }
        };
        let (tx, rx) = self.said_ms();
        let remote = &self.remote;
        let mut line = |name: &str, value: String| {
            // Writing to a string cannot fail.
            let _ = match name {
                "" => writeln!(text),
                name => writeln!(text, "  {name}: {value}"),
            };
        };
        let none = String::new;
        line("Forwarding", self.forwards().to_string());
        line("Detect Multiplier", self.config.mult.to_string());
        line("Concatenated Path Down", self.config.cpath_down.to_string());
        line("TX Interval", format!("Approx {}ms", self.tx_interval_ms()));
        line("RX Interval", format!("Approx {}ms", self.rx_interval_ms()));
        line("Detect Time", from_now(self.detect_ms));
        line("Next TX Time", from_now(self.next_tx_ms));
        line("Last TX Time", from_now(self.last_tx_ms));
        line("", none());
        line("Local Flags", flag_words(self.flags()));
        line("Local Session State", self.state.word().to_owned());
        line("Local Diagnostic", self.diagnostic.words().to_owned());
        line("Local Discriminator", format!("{:#x}", self.discriminator()));
        line("Local Minimum TX Interval", format!("{tx}ms"));
        line("Local Minimum RX Interval", format!("{rx}ms"));
        line("", none());
        line("Remote Flags", flag_words(remote.flags));
        line("Remote Session State", remote.state.word().to_owned());
        line("Remote Diagnostic", remote.diagnostic.words().to_owned());
        line("Remote Discriminator", format!("{:#x}", remote.discriminator));
        line("Remote Minimum TX Interval", format!("{}ms", remote.min_tx_ms));
        line("Remote Minimum RX Interval", format!("{}ms", remote.min_rx_ms));
        line("Remote Detect Multiplier", remote.mult.to_string());
        text
    }
}

fn flag_words(bits: u8) -> String {
    let words = [
        (flags::MULTIPOINT, "multipoint"),
        (flags::DEMAND, "demand"),
        (flags::AUTHENTICATION, "auth"),
        (flags::INDEPENDENT, "ctl"),
        (flags::FINAL, "final"),
        (flags::POLL, "poll"),
    ];
    let set: Vec<&str> =
        words.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, word)| *word).collect();
    if set.is_empty() { "none".to_owned() } else { set.join(" ") }
}

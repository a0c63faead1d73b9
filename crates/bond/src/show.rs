//! Texts of `ovs-appctl bond/*` and `lacp/*`, as Open vSwitch 3.1 writes them.

use crate::bond::Bond;
use crate::lacp::{Info, Machine, Status, state};
use crate::settings::{Mode, mac};
use std::fmt::Write;

/// The head of `bond/list`.
pub const LIST: &str = "bond\ttype\trecircID\tmembers\n";

impl Bond {
    /// Its line of `bond/list`. Nothing is recirculated.
    pub fn line(&self) -> String {
        let members: Vec<&str> = self.member_names().collect();
        format!("{}\t{}\t0\t{}\n", self.name, self.settings.mode.word(), members.join(", "))
    }

    /// `bond/show`.
    pub fn show(&self, now_ms: u64) -> String {
        let settings = &self.settings;
        let mut out = format!("---- {} ----\n", self.name);
        let _ = writeln!(out, "bond_mode: {}", settings.mode.word());
        out.push_str("bond may use recirculation: no, Recirc-ID : -1\n");
        let _ = writeln!(out, "bond-hash-basis: {}", settings.basis);
        out.push_str("lb_output action: disabled, bond-id: -1\n");
        if settings.mode == Mode::BalanceSlb {
            let _ = writeln!(out, "all members active: {}", settings.all_members);
        }
        let _ = writeln!(out, "updelay: {} ms", settings.up_delay_ms);
        let _ = writeln!(out, "downdelay: {} ms", settings.down_delay_ms);
        if let Some(at) = self.rebalance_at_ms {
            let _ = writeln!(out, "next rebalance: {} ms", at.saturating_sub(now_ms));
        }
        let _ = writeln!(out, "lacp_status: {}", self.lacp_status().word());
        let _ = writeln!(out, "lacp_fallback_ab: {}", settings.fallback_ab);
        let primary = match &settings.primary {
            None => "<none>".to_owned(),
            Some(name) if self.members.contains_key(name) => name.clone(),
            Some(name) => format!("{name}, no such member"),
        };
        let _ = writeln!(out, "active-backup primary: {primary}");
        let active = self.active.as_deref().unwrap_or("none");
        let _ = writeln!(out, "active member mac: {}({active})", mac(self.active_mac()));
        for (name, member) in &self.members {
            let word = if member.enabled { "enabled" } else { "disabled" };
            let _ = write!(out, "\nmember {name}: {word}\n");
            if self.active.as_ref() == Some(name) {
                out.push_str("  active member\n");
            }
            if let Some(at) = member.changes_ms {
                let word = if member.enabled { "downdelay" } else { "updelay" };
                let _ = writeln!(out, "  {word} expires in {} ms", at.saturating_sub(now_ms));
            }
            let _ = writeln!(out, "  may_enable: {}", self.may_enable(name));
            if settings.mode.balances() {
                let theirs = self.slots.iter().enumerate();
                let theirs = theirs.filter(|(_, slot)| slot.member.as_ref() == Some(name));
                for (at, slot) in theirs.filter(|(_, slot)| slot.bytes >= 1024) {
                    let _ = writeln!(out, "  hash {at}: {} kB load", slot.bytes / 1024);
                }
            }
        }
        out.push('\n');
        out
    }

    /// `lacp/show`; none without LACP.
    pub fn show_lacp(&self) -> Option<String> {
        let machine = self.machine.as_ref()?;
        let mut out = format!("---- {} ----\n  status: ", self.name);
        out.push_str(if machine.active { "active" } else { "passive" });
        out.push_str(if machine.negotiated { " negotiated\n" } else { "\n" });
        let _ = writeln!(out, "  sys_id: {}", mac(machine.system));
        let _ = writeln!(out, "  sys_priority: {}", machine.priority);
        match machine.links().is_empty() {
            true => out.push_str("  aggregation key: none\n"),
            false => drop(writeln!(out, "  aggregation key: {}", machine.key())),
        }
        let _ = writeln!(out, "  lacp_time: {}", if machine.fast { "fast" } else { "slow" });
        for (name, link) in machine.links() {
            let status = match link.status {
                Status::Current => "current",
                Status::Expired => "expired",
                Status::Defaulted => "defaulted",
            };
            let attached = if link.attached { "attached" } else { "detached" };
            let _ = write!(out, "\nmember: {name}: {status} {attached}\n");
            let _ = writeln!(out, "  port_id: {}", link.config.port);
            let _ = writeln!(out, "  port_priority: {}", link.config.priority);
            let _ = writeln!(out, "  may_enable: {}", machine.may_enable(name));
            for (who, info) in [("actor", machine.actor(link)), ("partner", link.partner)] {
                show_info(&mut out, who, &info);
            }
        }
        Some(out)
    }

    /// `lacp/show-stats`; none without LACP.
    pub fn show_lacp_stats(&self) -> Option<String> {
        let machine: &Machine = self.machine.as_ref()?;
        let mut out = format!("---- {} statistics ----\n", self.name);
        for (name, link) in machine.links() {
            let counts = &link.counts;
            let _ = write!(out, "\nmember: {name}:\n");
            for (what, count) in [
                ("TX PDUs", counts.sent),
                ("RX PDUs", counts.received),
                ("RX Bad PDUs", counts.bad),
                ("RX Marker Request PDUs", counts.markers),
                ("Link Expired", counts.expired),
                ("Link Defaulted", counts.defaulted),
                ("Carrier Status Changed", counts.carrier),
            ] {
                let _ = writeln!(out, "  {what}: {count}");
            }
        }
        Some(out)
    }
}

fn show_info(out: &mut String, who: &str, info: &Info) {
    let _ = write!(out, "\n  {who} sys_id: {}\n", mac(info.system));
    for (what, value) in [
        ("sys_priority", info.system_priority),
        ("port_id", info.port),
        ("port_priority", info.port_priority),
        ("key", info.key),
    ] {
        let _ = writeln!(out, "  {who} {what}: {value}");
    }
    let words = state::WORDS.iter().filter(|(bit, _)| info.state & bit != 0);
    let words: String = words.map(|(_, word)| format!(" {word}")).collect();
    let _ = writeln!(out, "  {who} state:{words}");
}

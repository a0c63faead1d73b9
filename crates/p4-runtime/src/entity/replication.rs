//! Multicast groups and clone sessions (P4Runtime §9.5).

use super::shared::{Reading, Writing};
use crate::code::{Fault, fault};
use crate::proto::v1;
use crate::schema::PORT_BITS;
use crate::translation::Sdn;
use ir::Bits;
use p4::control::multicast::{Copies, Cut, Replica, Session};
use std::collections::HashSet;
use v1::entity::Entity as E;
use v1::packet_replication_engine_entry::Type as Pre;
use v1::replica::PortKind;
use v1::update::Type;

/// Copies of a group, at most.
const REPLICAS_MAX: usize = 4096;

/// A port as the client writes it.
pub(super) fn port(sdn: &Sdn, bytes: &[u8]) -> Result<u32, Fault> {
    let port = sdn.read(bytes, PORT_BITS).map(|p| p.low_u32());
    port.map_err(|e| match sdn {
        Sdn::Text(_) => Fault::new(e.code(), format!("the port {e}")),
        _ => fault!(OutOfRange, "the port {e}; 0 to 511 are"),
    })
}

/// The same as the client reads it.
pub(super) fn told_port(sdn: &Sdn, port: u32) -> Vec<u8> {
    sdn.write(&Bits::from_u128(port.into(), PORT_BITS))
}

/// A port to watch as old clients number them; 0 is none.
pub(super) fn watch(port: i32) -> Result<Option<u32>, Fault> {
    match u32::try_from(port) {
        Ok(0) => Ok(None),
        Ok(port) if port < 1 << PORT_BITS => Ok(Some(port)),
        _ => Err(fault!(OutOfRange, "there is no port {port} to watch; 0 to 511 are")),
    }
}

#[allow(deprecated, reason = "old clients number ports")]
fn replicas(sdn: &Sdn, of: &str, given: &[v1::Replica]) -> Result<Vec<Replica>, Fault> {
    if given.len() > REPLICAS_MAX {
        return Err(fault!(
            ResourceExhausted,
            "{of}: {} replicas; {REPLICAS_MAX} is the most",
            given.len()
        ));
    }
    let instance = |n: u32| {
        u16::try_from(n).map_err(|_| fault!(OutOfRange, "{of}: instance {n}; 0 to 65535 are"))
    };
    let mut seen = HashSet::new();
    let mut out = Vec::with_capacity(given.len());
    for r in given {
        let port = match &r.port_kind {
            Some(PortKind::Port(bytes)) => port(sdn, bytes),
            Some(PortKind::EgressPort(n)) if *n < 1 << PORT_BITS => Ok(*n),
            Some(PortKind::EgressPort(n)) => {
                Err(fault!(OutOfRange, "there is no port {n}; 0 to 511 are"))
            }
            None => Err(fault!(InvalidArgument, "a replica has no port")),
        };
        let port = port.map_err(|e| Fault { text: format!("{of}: {}", e.text), ..e })?;
        let instance_of = instance(r.instance)?;
        if !seen.insert((port, instance_of)) {
            return Err(fault!(
                InvalidArgument,
                "{of}: port {port} with instance {instance_of} is there twice"
            ));
        }
        let backups = r.backup_replicas.iter().map(|b| {
            let port = self::port(sdn, &b.port);
            Ok((
                port.map_err(|e| Fault { text: format!("{of}: {}", e.text), ..e })?,
                instance(b.instance)?,
            ))
        });
        let backups = backups.collect::<Result<Vec<_>, Fault>>()?;
        let numbered = matches!(r.port_kind, Some(PortKind::EgressPort(_)));
        out.push(Replica { port, instance: instance_of, numbered, backups });
    }
    Ok(out)
}

fn told(sdn: &Sdn, replicas: &[Replica]) -> Vec<v1::Replica> {
    // As it was written: old clients read what they write.
    #[allow(deprecated, reason = "old clients number ports")]
    let one = |r: &Replica| v1::Replica {
        port_kind: Some(match r.numbered {
            true => PortKind::EgressPort(r.port),
            false => PortKind::Port(told_port(sdn, r.port)),
        }),
        instance: r.instance.into(),
        backup_replicas: r
            .backups
            .iter()
            .map(|(port, instance)| v1::BackupReplica {
                port: told_port(sdn, *port),
                instance: (*instance).into(),
            })
            .collect(),
    };
    replicas.iter().map(one).collect()
}

/// What is not of a table is the nameless role's.
fn allowed(w: &Writing<'_>) -> Result<(), Fault> {
    match w.role.is_empty() || (w.schema.roles.is_empty() && w.rights.are_whole()) {
        true => Ok(()),
        false => Err(fault!(
            PermissionDenied,
            "packet replication is for the role without a name, not for \"{}\"",
            w.role
        )),
    }
}

pub(super) fn write_group(
    w: &mut Writing<'_>,
    kind: Type,
    e: &v1::MulticastGroupEntry,
) -> Result<(), Fault> {
    allowed(w)?;
    let of = format!("multicast group {}", e.multicast_group_id);
    let updates = match kind {
        Type::Delete => w.control.group_destroy(e.multicast_group_id)?,
        _ => {
            let replicas = replicas(&w.schema.port, &of, &e.replicas)?;
            let copies = Copies { replicas, metadata: e.metadata.clone() };
            match kind {
                Type::Insert => w.control.multicast_insert(e.multicast_group_id, copies)?,
                _ => w.control.multicast_set(e.multicast_group_id, copies)?,
            }
        }
    };
    w.take(updates);
    Ok(())
}

pub(super) fn write_session(
    w: &mut Writing<'_>,
    kind: Type,
    e: &v1::CloneSessionEntry,
) -> Result<(), Fault> {
    allowed(w)?;
    let of = format!("clone session {}", e.session_id);
    if kind == Type::Delete {
        let updates = w.control.mirror_delete(e.session_id)?;
        w.take(updates);
        return Ok(());
    }
    let length = u32::try_from(e.packet_length_bytes).map_err(|_| {
        fault!(
            InvalidArgument,
            "{of}: packet_length_bytes {}; 0 or more is right, and 0 cuts no clone",
            e.packet_length_bytes
        )
    })?;
    let cut = Cut { length, queue: e.class_of_service };
    let replicas = replicas(&w.schema.port, &of, &e.replicas)?;
    if replicas.is_empty() {
        return Err(fault!(InvalidArgument, "{of}: it has no replica"));
    }
    let updates = match kind {
        Type::Insert => w.control.session_insert(e.session_id, Session { replicas, cut })?,
        _ => w.control.session_set(e.session_id, Session { replicas, cut })?,
    };
    w.take(updates);
    Ok(())
}

fn tell(r: &mut Reading<'_>, pre: Pre) {
    r.tell(E::PacketReplicationEngineEntry(v1::PacketReplicationEngineEntry { r#type: Some(pre) }));
}

pub(super) fn read_groups(r: &mut Reading<'_>, e: &v1::MulticastGroupEntry) -> Result<(), Fault> {
    let id = e.multicast_group_id;
    let groups: Vec<(u32, Copies)> =
        r.control.multicast_groups().filter(|(g, _)| id == 0 || *g == id).collect();
    for (group, copies) in groups {
        let entry = v1::MulticastGroupEntry {
            multicast_group_id: group,
            replicas: told(&r.schema.port, &copies.replicas),
            metadata: copies.metadata,
        };
        tell(r, Pre::MulticastGroupEntry(entry));
    }
    Ok(())
}

pub(super) fn read_sessions(r: &mut Reading<'_>, e: &v1::CloneSessionEntry) -> Result<(), Fault> {
    let id = e.session_id;
    let control = r.control;
    for (session, of) in control.sessions().filter(|(s, _)| id == 0 || *s == id) {
        let entry = v1::CloneSessionEntry {
            session_id: session,
            replicas: told(&r.schema.port, &of.replicas),
            class_of_service: of.cut.queue,
            packet_length_bytes: i32::try_from(of.cut.length).unwrap_or(i32::MAX),
        };
        tell(r, Pre::CloneSessionEntry(entry));
    }
    Ok(())
}

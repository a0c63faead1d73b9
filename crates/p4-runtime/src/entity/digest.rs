//! Which digests are told of, and how they are gathered (P4Runtime §9.11).

use super::digest_config::Config;
use super::shared::{Reading, Writing, unknown};
use crate::code::{Fault, fault};
use crate::proto::v1;
use v1::entity::Entity as E;
use v1::update::Type;

pub(super) fn write(w: &mut Writing<'_>, kind: Type, e: &v1::DigestEntry) -> Result<(), Fault> {
    let digest = w.schema.digests.get(&e.digest_id);
    let digest = digest.ok_or_else(|| unknown("digest", e.digest_id))?;
    w.allowed(e.digest_id, format_args!("digest `{}`", digest.name))?;
    let there = w.digests.contains_key(&e.digest_id);
    match (kind, there) {
        (Type::Insert, true) => {
            return Err(fault!(AlreadyExists, "digest `{}` is told of already", digest.name));
        }
        (Type::Modify | Type::Delete, false) => {
            return Err(fault!(NotFound, "digest `{}` is not told of; INSERT it", digest.name));
        }
        (Type::Delete, true) => {
            w.digests.remove(&e.digest_id);
            return Ok(());
        }
        _ => {}
    }
    let Some(c) = &e.config else {
        return Err(fault!(InvalidArgument, "digest `{}`: no config", digest.name));
    };
    let wrong =
        |what: &str| fault!(InvalidArgument, "digest `{}`: {what} is negative", digest.name);
    let config = Config {
        max_timeout_ns: c.max_timeout_ns.try_into().map_err(|_| wrong("max_timeout_ns"))?,
        max_list_size: c.max_list_size.try_into().map_err(|_| wrong("max_list_size"))?,
        ack_timeout_ns: c.ack_timeout_ns.try_into().map_err(|_| wrong("ack_timeout_ns"))?,
    };
    w.digests.insert(e.digest_id, config);
    Ok(())
}

pub(super) fn read(r: &mut Reading<'_>, e: &v1::DigestEntry) -> Result<(), Fault> {
    let schema = r.schema;
    for (id, _) in r.chosen(&schema.digests, e.digest_id, "digest")? {
        let Some(c) = r.digests.get(&id) else { continue };
        let config = v1::digest_entry::Config {
            max_timeout_ns: i64::try_from(c.max_timeout_ns).unwrap_or(i64::MAX),
            max_list_size: i32::try_from(c.max_list_size).unwrap_or(i32::MAX),
            ack_timeout_ns: i64::try_from(c.ack_timeout_ns).unwrap_or(i64::MAX),
        };
        r.tell(E::DigestEntry(v1::DigestEntry { digest_id: id, config: Some(config) }));
    }
    Ok(())
}

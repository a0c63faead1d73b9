//! Groups: a line of `ovs-ofctl add-groups`, and what `ovs-ofctl dump-groups` prints.

use super::actions;
use super::context::Context;
use super::error::{Fault, nearest};
use super::matches::text;
use super::piece::{Piece, Result, Words};
use super::subfield::set_field_name;
use crate::field::FieldId;
use crate::group::{
    Bucket, BucketId, GroupDesc, GroupMod, GroupModCommand, GroupType, Selection, SelectionMethod,
    names_buckets,
};
use crate::ids::{GroupId, PortNo};
use crate::version::Version;
use std::fmt::{self, Write};

const COMMANDS: &[(&str, GroupModCommand)] = &[
    ("add", GroupModCommand::Add),
    ("modify", GroupModCommand::Modify),
    ("add_or_mod", GroupModCommand::AddOrModify),
    ("delete", GroupModCommand::Delete),
    ("insert_buckets", GroupModCommand::InsertBucket),
    ("insert_bucket", GroupModCommand::InsertBucket),
    ("remove_buckets", GroupModCommand::RemoveBucket),
    ("remove_bucket", GroupModCommand::RemoveBucket),
];

/// Places among a group's buckets that have names.
const PLACES: &[(&str, BucketId)] =
    &[("first", BucketId::FIRST), ("last", BucketId::LAST), ("all", BucketId::ALL)];

/// Commands about some buckets of a group.
fn is_about_buckets(command: GroupModCommand) -> bool {
    matches!(command, GroupModCommand::InsertBucket | GroupModCommand::RemoveBucket)
}

/// The first name of each type is the one to print.
const TYPES: &[(&str, GroupType)] = &[
    ("all", GroupType::All),
    ("select", GroupType::Select),
    ("indirect", GroupType::Indirect),
    ("ff", GroupType::FastFailover),
    ("fast_failover", GroupType::FastFailover),
];

/// Reads a line of `ovs-ofctl add-groups`: perhaps a command (`add` if there is none), then
/// `group_id`, `type` and buckets. A delete has only `group_id`, a number or `all`, which is also
/// what it means without one.
///
/// # Errors
/// The first word that is wrong, or that the version cannot say.
pub fn parse_group(text: &str, cx: &Context<'_>) -> Result<GroupMod> {
    let line = Piece::line(text);
    let mut command = GroupModCommand::Add;
    let (mut group_id, mut group_type) = (None, None);
    let mut command_bucket = BucketId::ALL;
    let (mut method, mut param, mut fields) = (None, None, None);
    let mut buckets = Vec::new();
    let mut words = Words::of(line);
    let mut first = true;
    while let Some(word) = words.next()? {
        if std::mem::replace(&mut first, false) {
            if let Some((_, named)) = COMMANDS.iter().find(|(name, _)| word.whole.is(name)) {
                if is_about_buckets(*named) && !names_buckets(cx.version) {
                    return Err(word.not_in(cx.version, "command"));
                }
                command = *named;
                continue;
            }
            if word.whole.is("add_or_mod") {
                return Err(word.not_in(cx.version, "command"));
            }
        }
        match word.key.text.to_ascii_lowercase().as_str() {
            "group_id" if group_id.is_some() => return Err(word.key.error(Fault::Twice)),
            "group_id" => group_id = Some((word.arg()?, id(word.arg()?)?)),
            "type" if group_type.is_some() => return Err(word.key.error(Fault::Twice)),
            "type" => {
                let arg = word.arg()?;
                let Some((_, named)) = TYPES.iter().find(|(name, _)| arg.is(name)) else {
                    return Err(arg.expected("a group type: all, select, indirect or ff"));
                };
                group_type = Some(*named);
            }
            "bucket" | "buckets" => {
                if word.value.is_none() {
                    return Err(word.key.expected("`bucket=`"));
                }
                if matches!(command, GroupModCommand::Delete | GroupModCommand::RemoveBucket) {
                    return Err(word.key.refused("a delete has no buckets"));
                }
                // An insertion leaves the group as it is.
                let inserts = command == GroupModCommand::InsertBucket;
                let Some(group_type) = group_type.or(inserts.then_some(GroupType::Select)) else {
                    return Err(word.key.refused("`type=` must come before it"));
                };
                buckets = self::buckets(word.rest, group_type, cx)?;
                break;
            }
            // No message of 1.3 and 1.4 carries it; `ovs-ofctl` takes the words in every version.
            "selection_method" => {
                let arg = word.arg()?;
                let found = SelectionMethod::ALL.iter().find(|(_, name)| arg.is(name));
                let (named, _) = *found.ok_or_else(|| arg.expected("`hash` or `dp_hash`"))?;
                method = Some(named);
            }
            "selection_method_param" => param = Some((word.key, word.arg()?.number(64)?)),
            "fields" => fields = Some((word.key, selection_fields(word.arg()?, cx)?)),
            "command_bucket_id" if !is_about_buckets(command) => {
                return Err(word.not_in(cx.version, "setting"));
            }
            "command_bucket_id" => {
                let arg = word.arg()?;
                command_bucket = match PLACES.iter().find(|(name, _)| arg.is(name)) {
                    Some((_, place)) => *place,
                    None => BucketId(arg.u32()?),
                };
            }
            name => {
                let known = ["group_id", "type", "bucket", "add", "modify", "delete"];
                let nearest = nearest(name, known);
                return Err(word.key.error(Fault::Unknown { what: "word of a group", nearest }));
            }
        }
    }
    let end = Piece { text: "", at: text.len() };
    let is_delete = command == GroupModCommand::Delete;
    let group_id = match group_id {
        Some((piece, GroupId::ALL)) if !is_delete => {
            return Err(piece.refused("only a delete may name all groups"));
        }
        Some((_, id)) => id,
        None if is_delete => GroupId::ALL,
        None => return Err(end.expected("`group_id=`")),
    };
    let group_type = match group_type {
        Some(group_type) => group_type,
        None if is_delete || is_about_buckets(command) => GroupType::All,
        None => return Err(end.expected("`type=`")),
    };
    if group_type == GroupType::Indirect
        && !is_delete
        && !is_about_buckets(command)
        && buckets.len() != 1
    {
        return Err(end.expected("exactly one bucket, as the group is indirect"));
    }
    let selection = match (method, param, fields) {
        (None, Some((key, _)), _) | (None, _, Some((key, _))) => {
            return Err(key.refused("it needs `selection_method=`"));
        }
        (None, ..) => None,
        (Some(SelectionMethod::DpHash), _, Some((key, _))) => {
            return Err(key.refused("`dp_hash` takes no fields, `hash` does"));
        }
        (Some(method), param, fields) => {
            let (param, fields) = (param.map(|(_, n)| n), fields.map(|(_, list)| list));
            let (param, fields) = (param.unwrap_or(0), fields.unwrap_or_default());
            Some(Selection { method, param, fields })
        }
    };
    if selection.is_some() && group_type != GroupType::Select {
        return Err(end.expected("`type=select`, as the group has a selection_method"));
    }
    Ok(GroupMod { command, group_type, group_id, command_bucket, selection, buckets })
}

/// Fields with the bits of them that count, all if none are said: `ip_src=255.255.0.0,nw_proto`.
fn selection_fields(list: Piece<'_>, cx: &Context<'_>) -> Result<Vec<(FieldId, u128)>> {
    let mut fields: Vec<(FieldId, u128)> = Vec::new();
    let mut words = Words::of(list);
    while let Some(word) = words.next()? {
        let id = FieldId::from_name(word.key.text);
        // In 1.0 their names are NXM's, which has them all.
        let known = |id: &FieldId| cx.version == Version::V10 || id.info().since <= cx.version;
        let Some(id) = id.filter(known) else {
            return Err(super::matches::unknown_field(word.key));
        };
        if id.has_long_header() {
            return Err(word.key.refused("its header is too long for a selection method"));
        }
        if fields.iter().any(|(field, _)| *field == id) {
            return Err(word.key.error(Fault::Twice));
        }
        let mask = match word.value {
            None => id.all_bits(),
            Some(piece) => super::value::parse(id, piece, cx)?.0,
        };
        fields.push((id, mask));
    }
    Ok(fields)
}

fn id(arg: Piece<'_>) -> Result<GroupId> {
    if arg.is("all") {
        return Ok(GroupId::ALL);
    }
    match arg.number(32) {
        Ok(number) if number <= GroupId::MAX.0.into() => Ok(GroupId(number as u32)),
        _ => Err(arg.expected(format!("a group from 0 to {}, or `all`", GroupId::MAX))),
    }
}

/// The weight of a bucket that names none.
fn default_weight(group_type: GroupType) -> u16 {
    u16::from(group_type == GroupType::Select)
}

/// Reads buckets, from behind the first `bucket=`. A word that is no setting is an action;
/// `actions=` before the first may be left out.
fn buckets<'a>(piece: Piece<'a>, group_type: GroupType, cx: &Context<'_>) -> Result<Vec<Bucket>> {
    let new = |piece: Piece<'a>| Reading {
        start: Piece { text: "", ..piece },
        numbered: false,
        said: false,
        named: false,
        dropped: false,
        bucket: Bucket {
            id: BucketId(0),
            weight: default_weight(group_type),
            watch_port: PortNo::ANY,
            watch_group: GroupId::ANY,
            actions: Vec::new(),
        },
    };
    let mut done = Vec::new();
    let mut reading = new(piece);
    let mut words = Words::of(piece);
    while let Some(word) = words.next()? {
        if word.key.is("bucket") || word.key.is("buckets") {
            if word.value.is_none() {
                return Err(word.key.expected("`bucket=`"));
            }
            words = Words::of(word.rest);
            let place = done.len();
            done.push(std::mem::replace(&mut reading, new(word.rest)).finish(place)?);
            continue;
        }
        let bucket = &mut reading.bucket;
        match word.key.text.to_ascii_lowercase().as_str() {
            "weight" if group_type != GroupType::Select => {
                return Err(word.key.refused("only buckets of select groups have a weight"));
            }
            "weight" => bucket.weight = word.arg()?.u16()?,
            "watch_port" => bucket.watch_port = word.arg()?.port(cx)?,
            "watch_group" if word.arg()?.is("any") => bucket.watch_group = GroupId::ANY,
            "watch_group" => bucket.watch_group = GroupId(word.arg()?.u32()?),
            "bucket_id" if !names_buckets(cx.version) => {
                return Err(word.not_in(cx.version, "setting of a bucket"));
            }
            "bucket_id" => {
                let id = word.arg()?.u32()?;
                if id > BucketId::MAX.0 {
                    return Err(word.arg()?.expected("a bucket from 0 to 4294967040"));
                }
                bucket.id = BucketId(id);
                reading.numbered = true;
            }
            // Each part of the line is gone over once more at most.
            "actions" | "action" if reading.named => return Err(word.key.error(Fault::Twice)),
            "actions" | "action" => {
                if word.value.is_none() || word.parenthesised() {
                    return Err(word.key.expected("`actions=`"));
                }
                if word.rest.text.starts_with("bucket") {
                    return Err(word.rest.expected("actions and a comma"));
                }
                (reading.said, reading.named) = (true, true);
                words = Words::of(word.rest);
            }
            _ => {
                let is_action = actions::action(&word, cx, &mut bucket.actions)?;
                reading.dropped |= !is_action;
                reading.said = true;
            }
        }
    }
    let place = done.len();
    done.push(reading.finish(place)?);
    Ok(done)
}

/// A bucket while its words are read.
struct Reading<'a> {
    /// Where it begins.
    start: Piece<'a>,
    /// Whether it has a `bucket_id`.
    numbered: bool,
    /// Whether there were actions, or the word for them.
    said: bool,
    /// Whether there was that word.
    named: bool,
    /// Whether one of them was `drop`.
    dropped: bool,
    bucket: Bucket,
}

impl Reading<'_> {
    /// The bucket; one without a number has its place's.
    fn finish(mut self, place: usize) -> Result<Bucket> {
        if !self.said {
            return Err(self.start.expected("a bucket with `actions=`"));
        }
        if self.dropped && !self.bucket.actions.is_empty() {
            return Err(self.start.refused("a bucket that drops has no other actions"));
        }
        if !self.numbered {
            self.bucket.id = BucketId(place as u32);
        }
        Ok(self.bucket)
    }
}

/// Prints a group as `ovs-ofctl dump-groups` does; [`parse_group`] reads it.
pub fn print_group(group: &GroupDesc, version: Version) -> String {
    text(|out| {
        print(
            out,
            Some(group.group_type),
            group.group_id,
            &group.selection,
            &group.buckets,
            version,
        )
    })
}

/// Prints a group-mod as [`parse_group`] reads it, the command left out of an add.
pub fn print_group_mod(group: &GroupMod, version: Version) -> String {
    let is_delete = group.command == GroupModCommand::Delete;
    let is_add = group.command == GroupModCommand::Add;
    text(|out| {
        if let (false, Some((name, _))) =
            (is_add, COMMANDS.iter().find(|(_, command)| *command == group.command))
        {
            write!(out, "{name} ")?;
        }
        let buckets = if is_delete { &[][..] } else { &group.buckets };
        if is_about_buckets(group.command) {
            let id = group.command_bucket;
            write!(out, "group_id={},command_bucket_id=", group.group_id)?;
            match PLACES.iter().find(|(_, place)| *place == id) {
                Some((name, _)) => out.write_str(name)?,
                None => write!(out, "{}", id.0)?,
            }
            return print_buckets(out, GroupType::Select, buckets, version);
        }
        let group_type = (!is_delete).then_some(group.group_type);
        print(out, group_type, group.group_id, &group.selection, buckets, version)
    })
}

fn print(
    out: &mut dyn Write,
    group_type: Option<GroupType>,
    group_id: GroupId,
    selection: &Option<Selection>,
    buckets: &[Bucket],
    version: Version,
) -> fmt::Result {
    match group_id {
        GroupId::ALL => out.write_str("group_id=all")?,
        id => write!(out, "group_id={id}")?,
    }
    let Some(group_type) = group_type else { return Ok(()) };
    if let Some((name, _)) = TYPES.iter().find(|(_, t)| *t == group_type) {
        write!(out, ",type={name}")?;
    }
    if let Some(selection) = selection {
        write!(out, ",selection_method={}", selection.method.name())?;
        if selection.param != 0 {
            write!(out, ",selection_method_param={}", selection.param)?;
        }
        for (i, (field, mask)) in selection.fields.iter().enumerate() {
            out.write_str(if i == 0 { ",fields(" } else { "," })?;
            out.write_str(set_field_name(*field))?;
            if *mask != field.all_bits() {
                out.write_char('=')?;
                super::value::print(out, *field, *mask, field.all_bits())?;
            }
        }
        if !selection.fields.is_empty() {
            out.write_char(')')?;
        }
    }
    print_buckets(out, group_type, buckets, version)
}

fn print_buckets(
    out: &mut dyn Write,
    group_type: GroupType,
    buckets: &[Bucket],
    version: Version,
) -> fmt::Result {
    for bucket in buckets {
        out.write_str(",bucket=")?;
        if names_buckets(version) {
            write!(out, "bucket_id:{},", bucket.id.0)?;
        }
        if bucket.weight != default_weight(group_type) {
            write!(out, "weight:{},", bucket.weight)?;
        }
        if bucket.watch_port != PortNo::ANY {
            write!(out, "watch_port:{},", bucket.watch_port)?;
        }
        if bucket.watch_group != GroupId::ANY {
            write!(out, "watch_group:{},", bucket.watch_group)?;
        }
        out.write_str("actions=")?;
        actions::print::list(out, &bucket.actions, version)?;
    }
    Ok(())
}

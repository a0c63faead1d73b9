//! P4Info: what a control plane needs to know of a program (P4Runtime specification §6), as protocol
//! buffer text and as bytes.
//!
//! A thing's id is a byte for its kind and 24 bits of Jenkins' one-at-a-time hash of its full name, counted
//! up while another thing of its kind has it, in the order of names; `@id` says otherwise. Its alias is the
//! shortest end of its name that no other name has. Fields and their numbers are those of
//! `p4/config/v1/p4info.proto`.
//!
//! In: a checked program and what it was lowered to, whose names are full. What the architecture adds for
//! itself (tables of mirroring sessions, of group members) is not told.
//!
//! `type_info` has the structs of digests and registers, enums with values, and new types. Left out: documentation.

use crate::annotations::{annotated_number, told};
use crate::ast::Annotation;
use crate::hir;
use crate::lower::Lowered;
use crate::lower::names::{ActionName, InstanceName, TableName};
use crate::types::{Ty, TyId};
use ir::program::MatchKind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A field of a message.
struct Field {
    number: u32,
    name: &'static str,
    value: Value,
}

enum Value {
    Number(u64),
    True,
    /// An enumeration's member.
    Word(&'static str, u64),
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

fn number(number: u32, name: &'static str, value: u64) -> Field {
    Field { number, name, value: Value::Number(value) }
}

fn flag(number: u32, name: &'static str) -> Field {
    Field { number, name, value: Value::True }
}

fn word(number: u32, name: &'static str, word: &'static str, value: u64) -> Field {
    Field { number, name, value: Value::Word(word, value) }
}

fn text(number: u32, name: &'static str, value: impl Into<String>) -> Field {
    Field { number, name, value: Value::Text(value.into()) }
}

fn message(number: u32, name: &'static str, fields: Vec<Field>) -> Field {
    Field { number, name, value: Value::Message(fields) }
}

/// Protocol buffer text.
fn print(fields: &[Field], indent: usize, out: &mut String) {
    let escaped = |bytes: &[u8]| -> String {
        let mut out = String::new();
        for b in bytes {
            match b {
                b'"' => out.push_str("\\\""),
                b'\\' => out.push_str("\\\\"),
                b'\n' => out.push_str("\\n"),
                0x20..0x7f => out.push(char::from(*b)),
                _ => {
                    // Writing to a string does not fail.
                    let _ = write!(out, "\\{b:03o}");
                }
            }
        }
        out
    };
    for Field { name, value, .. } in fields {
        let _ = match value {
            Value::Number(n) => writeln!(out, "{:indent$}{name}: {n}", ""),
            Value::True => writeln!(out, "{:indent$}{name}: true", ""),
            Value::Word(w, _) => writeln!(out, "{:indent$}{name}: {w}", ""),
            Value::Text(t) => writeln!(out, "{:indent$}{name}: \"{}\"", "", escaped(t.as_bytes())),
            Value::Bytes(b) => writeln!(out, "{:indent$}{name}: \"{}\"", "", escaped(b)),
            Value::Message(inner) => {
                let _ = writeln!(out, "{:indent$}{name} {{", "");
                print(inner, indent + 2, out);
                writeln!(out, "{:indent$}}}", "")
            }
        };
    }
}

/// Protocol buffer bytes.
fn encode(fields: &[Field], out: &mut Vec<u8>) {
    fn varint(mut n: u64, out: &mut Vec<u8>) {
        while n >= 0x80 {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
    }
    for Field { number, value, .. } in fields {
        let mut bytes = |run: &[u8]| {
            varint(u64::from(*number) << 3 | 2, out);
            varint(run.len() as u64, out);
            out.extend_from_slice(run);
        };
        match value {
            Value::Text(t) => bytes(t.as_bytes()),
            Value::Bytes(b) => bytes(b),
            Value::Message(inner) => {
                let mut run = Vec::new();
                encode(inner, &mut run);
                bytes(&run);
            }
            Value::Number(n) | Value::Word(_, n) => {
                varint(u64::from(*number) << 3, out);
                varint(*n, out);
            }
            Value::True => {
                varint(u64::from(*number) << 3, out);
                varint(1, out);
            }
        }
    }
}

/// Jenkins' one-at-a-time hash.
fn jenkins(name: &str) -> u32 {
    let mut hash = 0u32;
    for b in name.bytes() {
        hash = hash.wrapping_add(b.into());
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// Kinds of things: the first byte of their ids.
mod kind {
    pub(super) const ACTION: u8 = 0x01;
    pub(super) const TABLE: u8 = 0x02;
    pub(super) const VALUE_SET: u8 = 0x03;
    pub(super) const CONTROLLER_HEADER: u8 = 0x04;
    pub(super) const PROFILE: u8 = 0x11;
    pub(super) const COUNTER: u8 = 0x12;
    pub(super) const DIRECT_COUNTER: u8 = 0x13;
    pub(super) const METER: u8 = 0x14;
    pub(super) const DIRECT_METER: u8 = 0x15;
    pub(super) const REGISTER: u8 = 0x16;
    pub(super) const DIGEST: u8 = 0x17;
}

/// What says that the control plane has other values of a type.
const TRANSLATED: &str = "p4runtime_translation";
/// What says that packets from or to the control plane have a header in front.
const CONTROLLER: &str = "controller_header";

/// The kind of an instance of an extern.
fn kind_of(instance: &InstanceName) -> Option<u8> {
    Some(match instance.kind.as_str() {
        "counter" => kind::COUNTER,
        "direct_counter" => kind::DIRECT_COUNTER,
        "meter" => kind::METER,
        "direct_meter" => kind::DIRECT_METER,
        "register" => kind::REGISTER,
        "action_profile" | "action_selector" => kind::PROFILE,
        _ => return None,
    })
}

fn annotations(number: u32, list: &[Annotation], out: &mut Vec<Field>) {
    out.extend(told(list).into_iter().map(|a| text(number, "annotations", a)));
}

struct Info<'a> {
    p: &'a hir::Program,
    lowered: &'a Lowered,
    ids: BTreeMap<(u8, String), u32>,
    /// How many names end so.
    ends: BTreeMap<String, usize>,
}

/// A program's P4Info as protocol buffer text.
pub fn to_text(p: &hir::Program, lowered: &Lowered) -> String {
    let mut out = String::from(
        "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n",
    );
    print(&Info::new(p, lowered).all(), 0, &mut out);
    out
}

/// A program's P4Info as protocol buffer bytes.
pub fn to_bytes(p: &hir::Program, lowered: &Lowered) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&Info::new(p, lowered).all(), &mut out);
    out
}

impl<'a> Info<'a> {
    fn new(p: &'a hir::Program, lowered: &'a Lowered) -> Info<'a> {
        let mut info = Info { p, lowered, ids: BTreeMap::new(), ends: BTreeMap::new() };
        let mut things: BTreeMap<(u8, String), Option<u32>> = BTreeMap::new();
        let id_of = |list: &[Annotation]| annotated_number(list, "id");
        let mut add = |kind, name: &str, id: Option<u32>| {
            things.entry((kind, name.to_string())).or_insert(id);
        };
        for t in info.tables() {
            let source = t.source.map(|s| &p.tables[s.index()]);
            add(kind::TABLE, &t.name, source.and_then(|s| id_of(&s.annotations)));
            for (a, source) in info.actions_of(t) {
                add(kind::ACTION, &a, source.and_then(|s| id_of(&s.annotations)));
            }
        }
        for (a, source) in &lowered.names.called {
            add(kind::ACTION, a, id_of(&p.actions[source.index()].annotations));
        }
        for i in &lowered.names.instances {
            if let Some(kind) = kind_of(i) {
                add(kind, &i.name, i.id);
            }
        }
        for (name, ..) in &lowered.names.value_sets {
            add(kind::VALUE_SET, name, None);
        }
        for d in &lowered.program.digests {
            add(kind::DIGEST, &d.name, None);
        }
        for (name, header) in info.controller_headers() {
            add(kind::CONTROLLER_HEADER, name, id_of(&header.annotations));
        }
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        for ((kind, name), id) in &things {
            if let Some(id) = id {
                let id = u32::from(*kind) << 24 | id & 0xff_ffff;
                taken.insert(id);
                info.ids.insert((*kind, name.clone()), id);
            }
        }
        for ((kind, name), id) in &things {
            if id.is_none() {
                let mut hash = jenkins(name);
                let id = loop {
                    let id = u32::from(*kind) << 24 | hash & 0xff_ffff;
                    if taken.insert(id) {
                        break id;
                    }
                    hash = hash.wrapping_add(1);
                };
                info.ids.insert((*kind, name.clone()), id);
            }
        }
        let names: BTreeSet<&String> = things.keys().map(|(_, name)| name).collect();
        for name in names {
            for end in ends(name) {
                *info.ends.entry(end.to_string()).or_default() += 1;
            }
        }
        info
    }

    /// Tables that the program has written.
    fn tables(&self) -> impl Iterator<Item = &'a TableName> + use<'a> {
        self.lowered.names.tables.iter().filter(|t| t.source.is_some())
    }

    /// Full names of a table's actions; `NoAction`, if the table has no default of its own.
    fn actions_of(&self, t: &TableName) -> Vec<(String, Option<&'a hir::Action>)> {
        let source = |a: &ActionName| a.source.map(|s| &self.p.actions[s.index()]);
        let mut all: Vec<_> = t.actions.iter().map(|a| (a.name.clone(), source(a))).collect();
        if self.adds_no_action(t) {
            let no_action = self.p.actions.iter().find(|a| &*a.name == "NoAction");
            all.push(("NoAction".to_string(), no_action));
        }
        all
    }

    fn adds_no_action(&self, t: &TableName) -> bool {
        let source = t.source.map(|s| &self.p.tables[s.index()]);
        source.is_some_and(|s| s.default.is_none())
            && !t.actions.iter().any(|a| a.name == "NoAction")
    }

    fn id(&self, kind: u8, name: &str) -> u64 {
        self.ids.get(&(kind, name.to_string())).copied().unwrap_or(0).into()
    }

    fn preamble(&self, kind: u8, name: &str, told: &[String]) -> Field {
        let ends = ends(name);
        let alias = ends.iter().find(|e| self.ends.get(**e).is_some_and(|n| *n < 2));
        let mut fields = vec![
            number(1, "id", self.id(kind, name)),
            text(2, "name", name),
            text(3, "alias", *alias.unwrap_or(&name)),
        ];
        fields.extend(told.iter().map(|a| text(4, "annotations", a.clone())));
        message(1, "preamble", fields)
    }

    fn all(&self) -> Vec<Field> {
        let mut out = vec![message(1, "pkg_info", self.package())];
        out.extend(self.tables().map(|t| message(2, "tables", self.table(t))));
        let mut seen = BTreeSet::new();
        let mut called: Vec<(u64, Field)> = Vec::new();
        let mut actions: Vec<_> = self.tables().flat_map(|t| self.actions_of(t)).collect();
        actions.retain(|a| seen.insert(a.0.clone()));
        // What is only called has no parameters that a control plane could give.
        for (name, source) in &self.lowered.names.called {
            if seen.insert(name.clone()) {
                let told = told(&self.p.actions[source.index()].annotations);
                let fields = vec![self.preamble(kind::ACTION, name, &told)];
                called.push((self.id(kind::ACTION, name), message(3, "actions", fields)));
            }
        }
        actions.sort_by_key(|a| self.id(kind::ACTION, &a.0));
        out.extend(actions.iter().map(|(n, a)| message(3, "actions", self.action(n, *a))));
        called.sort_by_key(|(id, _)| *id);
        out.extend(called.into_iter().map(|(_, field)| field));
        let instances = &self.lowered.names.instances;
        for (kind, field, name) in [
            (kind::PROFILE, 4, "action_profiles"),
            (kind::COUNTER, 5, "counters"),
            (kind::DIRECT_COUNTER, 6, "direct_counters"),
            (kind::METER, 7, "meters"),
            (kind::DIRECT_METER, 8, "direct_meters"),
        ] {
            let of_kind = instances.iter().filter(|i| kind_of(i) == Some(kind));
            out.extend(of_kind.filter_map(|i| Some(message(field, name, self.instance(kind, i)?))));
        }
        for (name, header) in self.controller_headers() {
            let fields = self.controller_header(name, header);
            out.push(message(9, "controller_packet_metadata", fields));
        }
        for (name, id, widths) in &self.lowered.names.value_sets {
            let mut fields = vec![self.preamble(kind::VALUE_SET, name, &[])];
            for (i, width) in (1..).zip(widths) {
                let matched = vec![
                    number(1, "id", i),
                    number(4, "bitwidth", (*width).into()),
                    word(5, "match_type", "EXACT", 2),
                ];
                fields.push(message(2, "match", matched));
            }
            let size = self.lowered.program.value_sets[id.index()].capacity;
            fields.push(number(3, "size", size.into()));
            out.push(message(10, "value_sets", fields));
        }
        let registers = instances.iter().filter(|i| kind_of(i) == Some(kind::REGISTER));
        out.extend(registers.map(|i| {
            let mut fields = vec![self.preamble(kind::REGISTER, &i.name, &i.annotations)];
            fields.extend(i.types.first().map(|t| message(2, "type_spec", self.type_spec(*t))));
            let size = i.numbers.first().copied().flatten().unwrap_or(0);
            fields.push(number(3, "size", size.into()));
            message(11, "registers", fields)
        }));
        out.extend(self.lowered.program.digests.iter().map(|d| {
            let mut fields = vec![self.preamble(kind::DIGEST, &d.name, &[])];
            if self.p.structs.iter().any(|s| *s.name == *d.name) {
                let spec = vec![message(4, "struct", vec![text(1, "name", d.name.clone())])];
                fields.push(message(2, "type_spec", spec));
            }
            message(12, "digests", fields)
        }));
        out.push(message(200, "type_info", self.type_info()));
        out
    }

    /// What `@pkginfo` says of the package, and its architecture.
    fn package(&self) -> Vec<Field> {
        use crate::ast::{AnnotationBody, ExprKind};
        let main = self.p.main.map(|main| &self.p.instances[main.index()]);
        let said = main.into_iter().flat_map(|m| m.annotations.iter());
        let mut pairs: Vec<(String, String)> = Vec::new();
        for a in said.filter(|a| &*a.name.name == "pkginfo") {
            match &a.body {
                AnnotationBody::Pairs(list) => {
                    for (key, value) in list {
                        if let ExprKind::Str(value) = &value.kind {
                            pairs.push((key.name.to_string(), value.to_string()));
                        }
                    }
                }
                AnnotationBody::Tokens(tokens) => {
                    for run in tokens.windows(3) {
                        if run[1].tok.text() == "="
                            && let crate::lex::Tok::Str(value) = &run[2].tok
                        {
                            pairs.push((run[0].tok.text().to_string(), value.to_string()));
                        }
                    }
                }
                _ => {}
            }
        }
        let known = [
            (1, "name"),
            (2, "version"),
            (5, "arch"),
            (6, "organization"),
            (7, "contact"),
            (8, "url"),
        ];
        let field = |(n, name): (u32, &'static str)| {
            let said = pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
            let value = said.or_else(|| (name == "arch").then(|| "v1model".to_owned()))?;
            Some(text(n, name, value))
        };
        known.into_iter().filter_map(field).collect()
    }

    /// Headers of packets from and to the control plane, by the names that they go by.
    fn controller_headers(&self) -> impl Iterator<Item = (&'a str, &'a hir::Struct)> + use<'a> {
        let headers = self.p.structs.iter();
        headers.filter_map(|s| Some((hir::annotation_text(&s.annotations, CONTROLLER)?, s)))
    }

    /// A header of packets from or to the control plane.
    fn controller_header(&self, name: &str, header: &hir::Struct) -> Vec<Field> {
        let mut out =
            vec![self.preamble(kind::CONTROLLER_HEADER, name, &told(&header.annotations))];
        for (i, f) in (1u32..).zip(&header.fields) {
            let id = annotated_number(&f.annotations, "id").unwrap_or(i);
            let mut fields = vec![number(1, "id", id.into()), text(2, "name", &*f.name)];
            annotations(3, &f.annotations, &mut fields);
            let (width, named) = self.width(f.ty);
            if let Some(width) = width {
                fields.push(number(4, "bitwidth", width.into()));
            }
            if let Some(named) = named {
                fields.push(message(5, "type_name", vec![text(1, "name", named)]));
            }
            out.push(message(2, "metadata", fields));
        }
        out
    }

    /// The types that the rest names.
    fn type_info(&self) -> Vec<Field> {
        let mut structs: BTreeMap<String, Vec<Field>> = BTreeMap::new();
        for d in &self.lowered.program.digests {
            if let Some(s) = self.p.structs.iter().find(|s| *s.name == *d.name) {
                self.struct_spec(s, &mut structs, 0);
            }
        }
        for i in self.lowered.names.instances.iter().filter(|i| kind_of(i) == Some(kind::REGISTER))
        {
            for ty in &i.types {
                if let Ty::Struct(s, _) = self.p.ty(*ty) {
                    self.struct_spec(&self.p.structs[s.index()], &mut structs, 0);
                }
            }
        }
        let entry =
            |key: String, value: Vec<Field>| vec![text(1, "key", key), message(2, "value", value)];
        let all = structs.into_iter();
        let mut out: Vec<Field> =
            all.map(|(name, spec)| message(1, "structs", entry(name, spec))).collect();
        for listed in &self.p.enums {
            let Some(Ty::Bit(width)) = listed.repr.map(|repr| self.p.ty(repr)) else { continue };
            let mut spec =
                vec![message(1, "underlying_type", vec![number(1, "bitwidth", (*width).into())])];
            for (name, value) in &listed.members {
                let value = value.as_ref().map_or_else(Vec::new, |v| v.to_bytes_be().1);
                let member = vec![
                    text(1, "name", &**name),
                    Field { number: 2, name: "value", value: Value::Bytes(value) },
                ];
                spec.push(message(2, "members", member));
            }
            out.push(message(6, "serializable_enums", entry(listed.name.to_string(), spec)));
        }
        for new in &self.p.newtypes {
            let spec = match hir::annotated(&new.annotations, TRANSLATED) {
                false => vec![message(1, "original_type", self.type_spec(new.base))],
                true => {
                    let uri = hir::annotation_text(&new.annotations, TRANSLATED).unwrap_or("");
                    let sdn = match annotated_number(&new.annotations, TRANSLATED) {
                        Some(width) => number(2, "sdn_bitwidth", width.into()),
                        None => message(3, "sdn_string", Vec::new()),
                    };
                    vec![message(2, "translated_type", vec![text(1, "uri", uri), sdn])]
                }
            };
            out.push(message(7, "new_types", entry(new.name.to_string(), spec)));
        }
        out
    }

    fn struct_spec(&self, s: &hir::Struct, out: &mut BTreeMap<String, Vec<Field>>, depth: usize) {
        if depth > self.p.structs.len() || out.contains_key(&*s.name) {
            return;
        }
        let mut members = Vec::new();
        for f in &s.fields {
            let spec = message(2, "type_spec", self.type_spec(f.ty));
            members.push(message(1, "members", vec![text(1, "name", &*f.name), spec]));
            if let Ty::Struct(inner, _) = self.p.ty(f.ty) {
                self.struct_spec(&self.p.structs[inner.index()], out, depth + 1);
            }
        }
        out.insert(s.name.to_string(), members);
    }

    /// A type as `P4DataTypeSpec`.
    fn type_spec(&self, ty: TyId) -> Vec<Field> {
        let bits = |kind: u32, name, w: u32| {
            let width = vec![number(1, "bitwidth", w.into())];
            vec![message(1, "bitstring", vec![message(kind, name, width)])]
        };
        match self.p.ty(ty) {
            Ty::Bit(w) => bits(1, "bit", *w),
            Ty::Signed(w) => bits(2, "int", *w),
            Ty::Bool => vec![message(2, "bool", Vec::new())],
            Ty::Tuple(types) => {
                let member = |t: &TyId| message(1, "members", self.type_spec(*t));
                vec![message(3, "tuple", types.iter().map(member).collect())]
            }
            Ty::New(n) => {
                let name = self.p.newtypes[n.index()].name.to_string();
                vec![message(12, "new_type", vec![text(1, "name", name)])]
            }
            Ty::Enum(e) => match self.p.enums[e.index()].repr {
                Some(repr) => self.type_spec(repr),
                None => Vec::new(),
            },
            Ty::Struct(s, _) => {
                let name = self.p.structs[s.index()].name.to_string();
                vec![message(4, "struct", vec![text(1, "name", name)])]
            }
            _ => Vec::new(),
        }
    }

    fn table(&self, t: &TableName) -> Vec<Field> {
        let Some(source) = t.source.map(|s| &self.p.tables[s.index()]) else { return Vec::new() };
        let mut out = vec![self.preamble(kind::TABLE, &t.name, &told(&source.annotations))];
        for (i, k) in (1u32..).zip(&t.keys) {
            let written = source.keys.get(k.source).map_or(&[][..], |k| &k.annotations[..]);
            let id = annotated_number(written, "id").unwrap_or(i);
            // Validity is a field of its header.
            let key = match k.name.strip_suffix(".isValid()") {
                Some(header) => format!("{header}.$valid$"),
                None => k.name.clone(),
            };
            let mut fields = vec![number(1, "id", id.into()), text(2, "name", key)];
            annotations(3, written, &mut fields);
            let (width, named) = match source.keys.get(k.source) {
                Some(key) => self.width(key.expr.ty),
                None => (None, None),
            };
            if width.is_some() || named.is_none() {
                fields.push(number(4, "bitwidth", width.unwrap_or(k.width).into()));
            }
            let (name, value) = match k.kind {
                MatchKind::Exact => ("EXACT", 2),
                MatchKind::Lpm => ("LPM", 3),
                MatchKind::Ternary => ("TERNARY", 4),
                MatchKind::Range => ("RANGE", 5),
                MatchKind::Optional => ("OPTIONAL", 6),
            };
            fields.push(word(5, "match_type", name, value));
            if let Some(named) = named {
                fields.push(message(8, "type_name", vec![text(1, "name", named)]));
            }
            out.push(message(2, "match_fields", fields));
        }
        for (listed, a) in source.actions.iter().zip(&t.actions) {
            let mut fields = vec![number(1, "id", self.id(kind::ACTION, &a.name))];
            annotations(2, &listed.annotations, &mut fields);
            if hir::annotated(&listed.annotations, "tableonly") {
                fields.push(word(3, "scope", "TABLE_ONLY", 1));
            } else if a.default_only {
                fields.push(word(3, "scope", "DEFAULT_ONLY", 2));
            } else if a.group_only {
                fields.push(word(3, "scope", "GROUP_ACTION", 3));
            }
            out.push(message(3, "action_refs", fields));
        }
        let no_action = self.id(kind::ACTION, "NoAction");
        if self.adds_no_action(t) {
            let fields = vec![
                number(1, "id", no_action),
                text(2, "annotations", "@defaultonly"),
                word(3, "scope", "DEFAULT_ONLY", 2),
            ];
            out.push(message(3, "action_refs", fields));
        }
        let declared = &self.lowered.program.tables[t.id.index()].default;
        let declared_action = t.of_default(declared.action);
        let default = t.actions.iter().find(|a| a.id == declared_action);
        let default_id = default.map_or(no_action, |a| self.id(kind::ACTION, &a.name));
        if source.default_const {
            out.push(number(4, "const_default_action_id", default_id));
        }
        let mut fields = vec![number(1, "action_id", default_id)];
        if let Some(a) = default {
            for (i, value) in (1..).zip(declared.args.iter().take(a.params.len())) {
                let value =
                    Field { number: 3, name: "value", value: Value::Bytes(shortest(value)) };
                fields.push(message(4, "arguments", vec![number(2, "param_id", i), value]));
            }
        }
        out.push(message(5, "initial_default_action", fields));
        if let Some(profile) = t.profile.map(|n| &self.lowered.names.profiles[n]) {
            out.push(number(6, "implementation_id", self.id(kind::PROFILE, &profile.name)));
        }
        if let Some(counter) = &t.counter {
            out.push(number(7, "direct_resource_ids", self.id(kind::DIRECT_COUNTER, counter)));
        }
        if let Some(meter) = &t.meter {
            out.push(number(7, "direct_resource_ids", self.id(kind::DIRECT_METER, &meter.name)));
        }
        out.push(number(8, "size", t.size.into()));
        if t.timeouts {
            out.push(word(9, "idle_timeout_behavior", "NOTIFY_CONTROL", 1));
        }
        if t.entries_const {
            out.push(flag(10, "is_const_table"));
        }
        if !source.entries.is_empty() {
            out.push(flag(11, "has_initial_entries"));
        }
        out
    }

    fn action(&self, name: &str, source: Option<&hir::Action>) -> Vec<Field> {
        let mut list = source.map_or(Vec::new(), |s| told(&s.annotations));
        // As p4c's core.p4 has it.
        if name == "NoAction" && list.is_empty() {
            list.push("@noWarn(\"unused\")".to_owned());
        }
        let mut out = vec![self.preamble(kind::ACTION, name, &list)];
        let Some(source) = source else { return out };
        let given = |p: &&hir::Param| p.direction == crate::ast::Direction::None;
        for (i, p) in (1u32..).zip(source.params.iter().filter(given)) {
            let id = annotated_number(&p.annotations, "id").unwrap_or(i);
            let name = hir::annotation_text(&p.annotations, "name").unwrap_or(&p.name);
            let mut fields = vec![number(1, "id", id.into()), text(2, "name", name)];
            annotations(3, &p.annotations, &mut fields);
            let (width, named) = self.width(p.ty);
            if let Some(width) = width {
                fields.push(number(4, "bitwidth", width.into()));
            }
            if let Some(named) = named {
                fields.push(message(6, "type_name", vec![text(1, "name", named)]));
            }
            out.push(message(2, "params", fields));
        }
        out
    }

    /// A type's width, and its name if it is one of the program's own.
    fn width(&self, ty: TyId) -> (Option<u32>, Option<String>) {
        match self.p.ty(ty) {
            Ty::Bool => (Some(1), None),
            Ty::Bit(w) | Ty::Signed(w) => (Some(*w), None),
            Ty::New(n) => {
                let new = &self.p.newtypes[n.index()];
                // A translated type has the width of what the control plane has in its place.
                let width = match hir::annotated(&new.annotations, TRANSLATED) {
                    true => annotated_number(&new.annotations, TRANSLATED),
                    false => self.width(new.base).0,
                };
                (width, Some(new.name.to_string()))
            }
            Ty::Enum(e) => {
                let e = &self.p.enums[e.index()];
                (e.repr.and_then(|r| self.width(r).0), Some(e.name.to_string()))
            }
            _ => (None, None),
        }
    }

    fn instance(&self, kind: u8, i: &InstanceName) -> Option<Vec<Field>> {
        let number_at = |at: usize| i.numbers.get(at).copied().flatten();
        let mut out = vec![self.preamble(kind, &i.name, &i.annotations)];
        let counter = |n: Option<u32>| match n {
            Some(0) => word(1, "unit", "PACKETS", 2),
            Some(1) => word(1, "unit", "BYTES", 1),
            _ => word(1, "unit", "BOTH", 3),
        };
        let meter = |n: Option<u32>| match n {
            Some(0) => word(1, "unit", "PACKETS", 2),
            _ => word(1, "unit", "BYTES", 1),
        };
        let size = |at| number(3, "size", number_at(at).unwrap_or(0).into());
        let direct = |uses: &dyn Fn(&TableName) -> bool| {
            let t = self.tables().find(|t| uses(t))?;
            Some(number(3, "direct_table_id", self.id(kind::TABLE, &t.name)))
        };
        match kind {
            kind::COUNTER => out.extend([message(2, "spec", vec![counter(number_at(1))]), size(0)]),
            kind::METER => out.extend([message(2, "spec", vec![meter(number_at(1))]), size(0)]),
            kind::DIRECT_COUNTER => {
                out.push(message(2, "spec", vec![counter(number_at(0))]));
                out.push(direct(&|t| t.counter.as_ref() == Some(&i.name))?);
            }
            kind::DIRECT_METER => {
                out.push(message(2, "spec", vec![meter(number_at(0))]));
                out.push(direct(&|t| t.meter.as_ref().is_some_and(|m| m.name == i.name))?);
            }
            _ => {
                let p = self.lowered.names.profiles.iter().find(|p| p.name == i.name)?;
                for t in self.tables().filter(|t| p.tables.contains(&t.id)) {
                    out.push(number(2, "table_ids", self.id(kind::TABLE, &t.name)));
                }
                if p.selector {
                    out.push(flag(3, "with_selector"));
                }
                out.push(number(4, "size", p.size.into()));
                if let Some(most) = i.max_group_size {
                    out.push(number(5, "max_group_size", most.into()));
                }
            }
        }
        Some(out)
    }
}

/// The ends of a name that begin after a dot, the shortest first.
fn ends(name: &str) -> Vec<&str> {
    let mut ends: Vec<&str> = name.rmatch_indices('.').map(|(at, _)| &name[at + 1..]).collect();
    ends.push(name);
    ends
}

/// A value as P4Runtime's bytes: without zeros in front.
fn shortest(value: &ir::Bits) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let zeros = bytes.iter().take_while(|b| **b == 0).count().min(bytes.len().saturating_sub(1));
    bytes[zeros..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_known_ones() {
        // Of p4c's own outputs.
        assert_eq!(0x0100_0000 | jenkins("NoAction") & 0xff_ffff, 21_257_015);
        assert_eq!(0x0200_0000 | jenkins("ingress.bd") & 0xff_ffff, 48_392_551);
    }

    #[test]
    fn messages_are_text_and_bytes() {
        let inner = vec![text(2, "name", "a\"b\n"), number(1, "id", 300), word(5, "t", "LPM", 3)];
        let fields = [message(2, "tables", inner), message(200, "type_info", Vec::new())];
        let mut shown = String::new();
        print(&fields, 0, &mut shown);
        assert_eq!(
            shown,
            "tables {\n  name: \"a\\\"b\\n\"\n  id: 300\n  t: LPM\n}\ntype_info {\n}\n"
        );
        let mut bytes = Vec::new();
        encode(&fields, &mut bytes);
        let expected: &[u8] =
            &[0x12, 11, 0x12, 4, b'a', b'"', b'b', b'\n', 0x08, 0xac, 0x02, 0x28, 3, 0xc2, 0x0c, 0];
        assert_eq!(bytes, expected);
    }
}

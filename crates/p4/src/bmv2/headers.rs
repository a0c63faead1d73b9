//! Header types, instances, stacks, unions and metadata, and how the program names them.

use super::node::{Node, Result};
use super::text::{Scope, Writer};
use std::collections::{BTreeMap, HashMap};

/// Fields of standard metadata and their widths.
const STANDARD: &[(&str, u32)] = &[
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("priority", 3),
];

/// Bits of a field, at most.
const WIDTH_MAX: u32 = 2048;
/// Elements of a stack, at most.
const STACK_MAX: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    /// Whether a header is valid: a truth.
    Valid,
    /// `standard_metadata.parser_error`.
    Error,
    Varbit,
}

/// A field as an expression names it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) text: String,
    pub(super) width: u32,
    pub(super) signed: bool,
    pub(super) kind: Kind,
    /// Number of a metadata field.
    pub(super) meta: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Field {
    name: String,
    pub(super) ident: String,
    pub(super) width: u32,
    pub(super) signed: bool,
    varbit: bool,
}

impl Field {
    fn ty(&self) -> String {
        match (self.varbit, self.signed) {
            (true, _) => format!("varbit<{}>", self.width),
            (_, true) => format!("int<{}>", self.width),
            _ => format!("bit<{}>", self.width),
        }
    }

    /// As a part of what `owner` names.
    pub(super) fn of(&self, owner: &str) -> Place {
        Place {
            text: format!("{owner}.{}", self.ident),
            width: self.width,
            signed: self.signed,
            kind: if self.varbit { Kind::Varbit } else { Kind::Plain },
            meta: None,
        }
    }
}

#[derive(Debug)]
struct HeaderType {
    node: String,
    ident: String,
    fields: Vec<Field>,
    /// P4-14: the length of its variable field.
    has_length: bool,
}

#[derive(Debug)]
enum Instance {
    Header {
        text: String,
        ty: usize,
    },
    /// Numbers of its fields among metadata.
    Meta {
        ty: usize,
        first: usize,
    },
}

/// A header, a stack or a union.
#[derive(Clone, Debug)]
pub(super) struct Header {
    pub(super) text: String,
    pub(super) ty: usize,
}

#[derive(Debug)]
struct Metadata {
    ident: String,
    ty: String,
    lists: Vec<u8>,
    node: String,
}

#[derive(Debug)]
struct Union {
    ident: String,
    node: String,
    members: Vec<(String, usize)>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Headers {
    types: Vec<HeaderType>,
    by_name: HashMap<String, usize>,
    instances: HashMap<String, Instance>,
    stacks: HashMap<String, Header>,
    unions: HashMap<String, String>,
    union_types: Vec<Union>,
    union_stacks: HashMap<String, Header>,
    /// Members of the struct `headers`: node, line.
    members: Vec<(String, String)>,
    meta: Vec<Metadata>,
    /// Fields that are standard metadata by another name.
    aliases: HashMap<(String, String), &'static str>,
}

impl Headers {
    pub(super) fn read(root: &Node<'_>) -> Result<Headers> {
        let mut headers = Headers::default();
        headers.read_types(root)?;
        for n in root.list("field_aliases")? {
            let (standard, target) = (n.at(0)?.str()?, n.at(1)?);
            let last = standard.rsplit('.').next().unwrap_or(standard);
            // Others than these have no meaning to simple_switch any more.
            let Some(known) = STANDARD.iter().find(|s| s.0 == last) else { continue };
            let (header, field) = target.pair()?;
            headers.aliases.insert((header.to_owned(), field.to_owned()), known.0);
        }
        headers.read_instances(root)?;
        Ok(headers)
    }

    fn read_types(&mut self, root: &Node<'_>) -> Result<()> {
        let mut idents = Scope::default();
        for n in root.field("header_types")?.items()? {
            let name = n.name()?;
            let has_length = n.get("length_exp").is_some();
            let mut used = Scope::default();
            let mut fields: Vec<Field> = Vec::new();
            let mut fixed = 0;
            for f in n.field("fields")?.items()? {
                let field = f.at(0)?.str()?;
                let width = f.at(1)?;
                let varbit = width.value.as_str() == Some("*");
                let signed = f.value.get(2).and_then(serde_json::Value::as_bool).unwrap_or(false);
                let width_bits = match varbit {
                    true => 0,
                    false => width.number()?,
                };
                if !varbit && !(1..=WIDTH_MAX).contains(&width_bits) {
                    return width.no(format!("a field has 1 to {WIDTH_MAX} bits"));
                }
                fixed += width_bits;
                let (name, ident) = (field.to_owned(), used.add(field));
                fields.push(Field { name, ident, width: width_bits, signed, varbit });
            }
            if let Some(f) = fields.iter_mut().find(|f| f.varbit) {
                let bytes = n.field("max_length")?.number()?;
                let bits = bytes.checked_mul(8).and_then(|b| b.checked_sub(fixed));
                match bits.filter(|b| (1..=WIDTH_MAX * 8).contains(b)) {
                    Some(bits) => f.width = bits,
                    None => return n.no("`max_length` leaves no room for the variable field"),
                }
            }
            if fields.iter().filter(|f| f.varbit).count() > 1 {
                return n.no("a header has one variable field at most");
            }
            let (node, ident) = (n.path().to_owned(), idents.add(&format!("t_{name}")));
            if self.by_name.insert(name.to_owned(), self.types.len()).is_some() {
                return n.no(format!("there are two header types `{name}`"));
            }
            self.types.push(HeaderType { node, ident, fields, has_length });
        }
        for n in root.list("header_union_types")? {
            let mut used = Scope::default();
            let mut members = Vec::new();
            for m in n.field("headers")?.items()? {
                let (member, ty) = m.pair()?;
                members.push((used.add(member), self.type_of(&m, ty)?));
            }
            let ident = idents.add(&format!("t_{}", n.name()?));
            self.union_types.push(Union { ident, node: n.path().to_owned(), members });
        }
        Ok(())
    }

    fn type_of(&self, n: &Node<'_>, name: &str) -> Result<usize> {
        let found = self.by_name.get(name).copied();
        found.ok_or_else(|| n.refused(format!("there is no header type `{name}`")))
    }

    fn read_instances(&mut self, root: &Node<'_>) -> Result<()> {
        let (mut used, mut metas) = (Scope::default(), Scope::default());
        let mut ids: BTreeMap<u64, (String, usize)> = BTreeMap::new();
        let mut in_parts: HashMap<u64, String> = HashMap::new();
        let id_of = |n: &Node<'_>| n.value.as_u64().ok_or_else(|| n.refused("an id is a number"));
        let all = root.field("headers")?.items()?;
        for n in &all {
            let ty = self.type_of(n, n.field("header_type")?.str()?)?;
            ids.insert(id_of(&n.field("id")?)?, (n.name()?.to_owned(), ty));
        }
        let known = |n: &Node<'_>| -> Result<(u64, usize)> {
            let id = id_of(n)?;
            let found = ids.get(&id).map(|(_, ty)| (id, *ty));
            found.ok_or_else(|| n.refused(format!("no header has the id {id}")))
        };
        for n in root.list("header_stacks")? {
            let (name, ty) = (n.name()?, self.type_of(&n, n.field("header_type")?.str()?)?);
            let text = format!("hdr__.{}", used.add(name));
            let elements = n.field("header_ids")?.items()?;
            if elements.is_empty() || elements.len() > STACK_MAX {
                return n.no(format!("a stack has 1 to {STACK_MAX} headers"));
            }
            for (i, e) in elements.iter().enumerate() {
                let (id, own) = known(e)?;
                if own != ty {
                    return e.no("the header is of another type than the stack");
                }
                in_parts.insert(id, format!("{text}[{i}]"));
            }
            let line = format!(
                "{}[{}] {};",
                self.types[ty].ident,
                elements.len(),
                &text["hdr__.".len()..]
            );
            self.members.push((n.path().to_owned(), line));
            self.stacks.insert(name.to_owned(), Header { text, ty });
        }
        let stacked = self.read_unions(root, &mut used, &mut in_parts, &known)?;
        for (i, n) in all.iter().enumerate() {
            let name = n.name()?;
            let ty = self.type_of(n, n.field("header_type")?.str()?)?;
            let instance = if n.flag("metadata")? {
                self.metadata(n, name, ty, &mut metas)
            } else if let Some(text) = in_parts.get(&id_of(&all[i].field("id")?)?) {
                Instance::Header { text: text.clone(), ty }
            } else {
                let ident = used.add(name);
                let line = format!("{} {ident};", self.types[ty].ident);
                self.members.push((n.path().to_owned(), line));
                Instance::Header { text: format!("hdr__.{ident}"), ty }
            };
            if self.instances.insert(name.to_owned(), instance).is_some() {
                return n.no(format!("there are two headers `{name}`"));
            }
        }
        debug_assert!(stacked <= self.unions.len());
        Ok(())
    }

    /// Unions and their stacks; how many unions are in stacks.
    fn read_unions(
        &mut self,
        root: &Node<'_>,
        used: &mut Scope,
        in_parts: &mut HashMap<u64, String>,
        known: &dyn Fn(&Node<'_>) -> Result<(u64, usize)>,
    ) -> Result<usize> {
        let names: HashMap<String, usize> = root
            .list("header_union_types")?
            .iter()
            .enumerate()
            .map(|(i, n)| Ok((n.name()?.to_owned(), i)))
            .collect::<Result<_>>()?;
        let type_of = |n: &Node<'_>| {
            let name = n.field("union_type")?.str()?;
            let found = names.get(name).copied();
            found.ok_or_else(|| n.refused(format!("there is no header union type `{name}`")))
        };
        let unions = root.list("header_unions")?;
        let mut in_stacks: HashMap<u64, String> = HashMap::new();
        for n in root.list("header_union_stacks")? {
            let (name, ty) = (n.name()?, type_of(&n)?);
            let text = format!("hdr__.{}", used.add(name));
            let elements = n.field("header_union_ids")?.items()?;
            if elements.is_empty() || elements.len() > STACK_MAX {
                return n.no(format!("a stack has 1 to {STACK_MAX} unions"));
            }
            for (i, e) in elements.iter().enumerate() {
                in_stacks.insert(e.number()?.into(), format!("{text}[{i}]"));
            }
            let line = format!(
                "{}[{}] {};",
                self.union_types[ty].ident,
                elements.len(),
                &text["hdr__.".len()..]
            );
            self.members.push((n.path().to_owned(), line));
            self.union_stacks.insert(name.to_owned(), Header { text, ty });
        }
        for n in &unions {
            let (name, ty) = (n.name()?, type_of(n)?);
            let text = match in_stacks.get(&n.field("id")?.number()?.into()) {
                Some(text) => text.clone(),
                None => {
                    let ident = used.add(name);
                    let line = format!("{} {ident};", self.union_types[ty].ident);
                    self.members.push((n.path().to_owned(), line));
                    format!("hdr__.{ident}")
                }
            };
            let ids = n.field("header_ids")?.items()?;
            let members = &self.union_types[ty].members;
            if ids.len() != members.len() {
                return n.no("it has another number of headers than its type");
            }
            for (e, (member, ty)) in ids.iter().zip(members) {
                let (id, own) = known(e)?;
                if own != *ty {
                    return e.no("the header is of another type than the union's member");
                }
                in_parts.insert(id, format!("{text}.{member}"));
            }
            self.unions.insert(name.to_owned(), text);
        }
        Ok(in_stacks.len())
    }

    fn metadata(&mut self, n: &Node<'_>, name: &str, ty: usize, used: &mut Scope) -> Instance {
        let first = self.meta.len();
        for f in &self.types[ty].fields {
            // `scalars` holds what has no struct of its own.
            let ident = match name {
                "scalars" => used.add(&f.name),
                _ => used.add(&format!("{name}.{}", f.name)),
            };
            let node = n.path().to_owned();
            self.meta.push(Metadata { ident, ty: f.ty(), lists: Vec::new(), node });
        }
        Instance::Meta { ty, first }
    }

    /// A field by the names of its header and its own.
    pub(super) fn field(&self, n: &Node<'_>) -> Result<Place> {
        let (header, field) = n.pair()?;
        let alias = self.aliases.get(&(header.to_owned(), field.to_owned())).copied();
        if let Some(place) = standard(header, field, alias) {
            return Ok(place);
        }
        match self.instances.get(header) {
            Some(Instance::Header { text, .. }) if field == "$valid$" => Ok(Place {
                text: format!("{text}.isValid()"),
                width: 1,
                signed: false,
                kind: Kind::Valid,
                meta: None,
            }),
            Some(Instance::Header { text, ty }) => {
                let fields = &self.types[*ty].fields;
                match fields.iter().find(|f| f.name == field) {
                    Some(f) => Ok(f.of(text)),
                    None => n.no(format!("the header `{header}` has no field `{field}`")),
                }
            }
            Some(Instance::Meta { ty, first }) => {
                let fields = &self.types[*ty].fields;
                match fields.iter().position(|f| f.name == field) {
                    Some(i) => {
                        let text = format!("meta__.{}", self.meta[first + i].ident);
                        Ok(Place { text, meta: Some(first + i), ..fields[i].of("") })
                    }
                    None => n.no(format!("the metadata `{header}` has no field `{field}`")),
                }
            }
            None if field == "$valid$" && self.unions.contains_key(header) => Ok(Place {
                text: format!("{}.isValid()", self.unions[header]),
                width: 1,
                signed: false,
                kind: Kind::Valid,
                meta: None,
            }),
            None => n.no(format!("there is no header `{header}`")),
        }
    }

    /// A header by its name.
    pub(super) fn header(&self, n: &Node<'_>) -> Result<Header> {
        let name = n.str()?;
        match self.instances.get(name) {
            Some(Instance::Header { text, ty }) => Ok(Header { text: text.clone(), ty: *ty }),
            Some(Instance::Meta { .. }) => n.no(format!("`{name}` is metadata, not a header")),
            None => n.no(format!("there is no header `{name}`")),
        }
    }

    pub(super) fn stack(&self, n: &Node<'_>) -> Result<Header> {
        let name = n.str()?;
        let found = self.stacks.get(name).cloned();
        found.ok_or_else(|| n.refused(format!("there is no header stack `{name}`")))
    }

    pub(super) fn union(&self, n: &Node<'_>) -> Result<String> {
        let name = n.str()?;
        let found = self.unions.get(name).cloned();
        found.ok_or_else(|| n.refused(format!("there is no header union `{name}`")))
    }

    /// A stack of unions; its type is one of unions.
    pub(super) fn union_stack(&self, n: &Node<'_>) -> Result<Header> {
        let name = n.str()?;
        let found = self.union_stacks.get(name).cloned();
        found.ok_or_else(|| n.refused(format!("there is no stack of header unions `{name}`")))
    }

    /// A member of a union's type, by its place: its name and type.
    pub(super) fn member(&self, ty: usize, i: usize) -> Option<(&str, usize)> {
        self.union_types[ty].members.get(i).map(|(name, ty)| (name.as_str(), *ty))
    }

    /// A member of a union's type, by its name.
    pub(super) fn member_named(&self, ty: usize, name: &str) -> Option<(&str, usize)> {
        let mut all = self.union_types[ty].members.iter();
        all.find(|(own, _)| own == name).map(|(name, ty)| (name.as_str(), *ty))
    }

    /// The fields of a header's type.
    pub(super) fn fields(&self, ty: usize) -> &[Field] {
        &self.types[ty].fields
    }

    /// A field of a header's type.
    pub(super) fn field_named(&self, ty: usize, name: &str) -> Option<&Field> {
        self.types[ty].fields.iter().find(|f| f.name == name)
    }

    /// Its length comes from its own fields, as in P4-14.
    pub(super) fn has_length(&self, ty: usize) -> bool {
        self.types[ty].has_length
    }

    /// A metadata field is in a field list.
    pub(super) fn listed(&mut self, meta: usize, list: u8) {
        let lists = &mut self.meta[meta].lists;
        if !lists.contains(&list) {
            lists.push(list);
        }
    }

    /// Types, and the structs `headers` and `metadata`.
    pub(super) fn write(&self, w: &mut Writer) {
        let of_headers: Vec<usize> = self
            .instances
            .values()
            .filter_map(|i| match i {
                Instance::Header { ty, .. } => Some(*ty),
                Instance::Meta { .. } => None,
            })
            .collect();
        for (i, t) in self.types.iter().enumerate().filter(|(i, _)| of_headers.contains(i)) {
            debug_assert!(i < self.types.len());
            w.at(&t.node);
            w.line(format!("header {} {{", t.ident));
            for f in &t.fields {
                w.line(format!("{} {};", f.ty(), f.ident));
            }
            w.line("}");
        }
        for u in &self.union_types {
            w.at(&u.node);
            w.line(format!("header_union {} {{", u.ident));
            for (name, ty) in &u.members {
                w.line(format!("{} {name};", self.types[*ty].ident));
            }
            w.line("}");
        }
        w.at("headers");
        w.line("struct headers {");
        for (node, line) in &self.members {
            w.at(node);
            w.line(line);
        }
        w.line("}");
        w.line("struct metadata {");
        for m in &self.meta {
            w.at(&m.node);
            let lists: Vec<String> = m.lists.iter().map(u8::to_string).collect();
            let lists = match lists.is_empty() {
                true => String::new(),
                false => format!("@field_list({}) ", lists.join(", ")),
            };
            w.line(format!("{lists}{} {};", m.ty, m.ident));
        }
        w.line("}");
    }
}

/// A field of standard metadata.
fn standard(header: &str, field: &str, alias: Option<&'static str>) -> Option<Place> {
    let place = |text: String, width, kind| Place { text, width, signed: false, kind, meta: None };
    let own = matches!(header, "standard_metadata" | "intrinsic_metadata" | "queueing_metadata");
    if header == "standard_metadata" && field == "parser_error" {
        return Some(place("std__.parser_error".to_owned(), 32, Kind::Error));
    }
    let name = alias.or(own.then_some(field))?;
    let (name, width) = STANDARD.iter().find(|s| s.0 == name)?;
    Some(place(format!("std__.{name}"), *width, Kind::Plain))
}

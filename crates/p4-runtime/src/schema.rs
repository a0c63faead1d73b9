//! What a client's P4Info says, bound to the program by names.
//!
//! Ids are the client's. All that it names must be in the program and agree with it; what it leaves out, the client does
//! not see.

mod header;
mod port;

use crate::code::{Fault, fault};
use crate::proto::info;
use crate::restriction::{self, Restriction};
use crate::translation::{Sdn, Strings};
use ir::program::MatchKind;
use ir::{ActionId, DigestId, Program, RegisterId, TableId, ValueSetId};
use p4::control::prioritised;
use p4::lower::names::{Names, TableName};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// A field of a table's key.
#[derive(Clone, Debug)]
pub struct Field {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Place in the program's key.
    pub key: u16,
    /// Bits.
    pub width: u32,
    /// How it is compared.
    pub kind: MatchKind,
    /// How the client writes its values.
    pub sdn: Sdn,
}

/// A parameter or a field of a controller header.
#[derive(Clone, Debug)]
pub struct Param {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// How the client writes its values.
    pub sdn: Sdn,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Full name.
    pub name: String,
    /// Parameters in the program's order.
    pub params: Vec<Param>,
    /// What its arguments have to keep to.
    pub restriction: Option<Arc<Restriction>>,
}

/// An action as a table uses it.
#[derive(Clone, Copy, Debug)]
pub struct ActionUse {
    /// In the program.
    pub action: ActionId,
    /// Entries may have it.
    pub in_entries: bool,
    /// It may be the default.
    pub as_default: bool,
    /// Groups of action sets may have it, and nothing else may.
    pub of_groups: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// In the program.
    pub table: TableId,
    /// Key fields as the client lists them.
    pub fields: Vec<Field>,
    /// Actions by id.
    pub actions: BTreeMap<u32, ActionUse>,
    /// Its profile's id.
    pub profile: Option<u32>,
    /// Entries need a priority.
    pub prioritised: bool,
    /// The default action is constant.
    pub const_default: bool,
    /// Entries are constant.
    pub is_const: bool,
    /// The program has written entries.
    pub has_initial: bool,
    /// Entries may time out.
    pub timeouts: bool,
    /// The direct counter's id.
    pub counter: Option<u32>,
    /// The array that counts the default action.
    pub default_counter: Option<u32>,
    /// The direct meter's id, and whether it counts packets.
    pub meter: Option<(u32, bool)>,
    /// Only this role may write it, and the one without a name.
    pub role: Option<String>,
    /// What its entries have to keep to.
    pub restriction: Option<Arc<Restriction>>,
}

/// An action profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Id.
    pub id: u32,
    /// Full name.
    pub name: String,
    /// It has groups.
    pub selector: bool,
    /// The actions of its tables by id.
    pub actions: BTreeMap<u32, ActionId>,
}

/// Counters or meters by index.
#[derive(Clone, Debug)]
pub struct Array {
    /// Full name.
    pub name: String,
    /// Its number, or that of its first cell.
    pub first: u32,
    /// Cells.
    pub size: u32,
    /// It counts packets (meters).
    pub packets: bool,
}

/// A register.
#[derive(Clone, Debug)]
pub struct Register {
    /// Full name.
    pub name: String,
    /// In the program.
    pub register: RegisterId,
    /// Bits of a cell.
    pub width: u32,
    /// Cells.
    pub size: u32,
    /// Cells are of the type `bool`.
    pub is_bool: bool,
    /// How the client writes its values.
    pub sdn: Sdn,
}

/// A value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Full name.
    pub name: String,
    /// In the program.
    pub set: ValueSetId,
    /// Fields in order, the first one highest.
    pub fields: Vec<Param>,
    /// Members, at most.
    pub size: u32,
}

/// A digest.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Id.
    pub id: u32,
    /// Name.
    pub name: String,
    /// In the program.
    pub digest: DigestId,
    /// The shape of its values.
    pub shape: Shape,
}

/// The shape of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Bits, and how the client writes them.
    Bits(Sdn),
    /// A truth.
    Bool,
    /// A struct of these.
    Struct(Vec<Shape>),
    /// A tuple of these.
    Tuple(Vec<Shape>),
}

/// A client's view of a program.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Tables by id.
    pub tables: BTreeMap<u32, Table>,
    /// Actions by id.
    pub actions: HashMap<u32, Action>,
    /// Profiles by id.
    pub profiles: BTreeMap<u32, Profile>,
    /// Counter arrays by id.
    pub counters: BTreeMap<u32, Array>,
    /// Tables of direct counters by the counter's id.
    pub direct_counters: BTreeMap<u32, u32>,
    /// Meter arrays by id.
    pub meters: BTreeMap<u32, Array>,
    /// Registers by id.
    pub registers: BTreeMap<u32, Register>,
    /// Value sets by id.
    pub value_sets: BTreeMap<u32, ValueSet>,
    /// Digests by id.
    pub digests: BTreeMap<u32, Digest>,
    /// Fields of what comes before a packet to the controller.
    pub packet_in: Option<Vec<Param>>,
    /// Fields of what comes before a packet of the controller's.
    pub packet_out: Option<Vec<Param>>,
    /// Ids by action of the program, for each table.
    pub action_ids: HashMap<(TableId, ActionId), u32>,
    /// Tables' ids by the program's.
    pub table_ids: HashMap<TableId, u32>,
    /// Who alone may write, by id.
    pub roles: HashMap<u32, String>,
    /// How the client writes ports.
    pub port: Sdn,
    /// Strings of translated types, by URI (or name) and bits.
    pub strings: HashMap<(String, u32), Arc<Strings>>,
}

/// Ports of v1model.
pub(crate) const PORT_BITS: u32 = 9;

const ROLE: &str = "@p4runtime_role(\"";

fn role_of(annotations: &[String]) -> Option<String> {
    let text = annotations.iter().find_map(|a| a.strip_prefix(ROLE))?;
    text.split('"').next().map(str::to_owned)
}

fn name_of_key(f: &Field) -> restriction::Name {
    use restriction::Kind as K;
    let kind = match f.kind {
        _ if matches!(f.sdn, Sdn::Text(_)) => K::Strings,
        MatchKind::Exact => K::Exact,
        MatchKind::Ternary => K::Ternary,
        MatchKind::Optional => K::Optional,
        MatchKind::Lpm => K::Lpm,
        MatchKind::Range => K::Range,
    };
    restriction::Name { name: f.name.clone(), width: f.width, kind }
}

fn name_of_param(p: &Param) -> restriction::Name {
    let kind = match p.sdn {
        Sdn::Text(_) => restriction::Kind::Strings,
        _ => restriction::Kind::Param,
    };
    restriction::Name { name: p.name.clone(), width: p.width, kind }
}

/// The restriction that a thing's annotations say, or what is wrong with it.
fn restricted(
    preamble: Option<&info::Preamble>,
    word: &str,
    names: &[restriction::Name],
    priority: bool,
) -> Result<Option<Arc<Restriction>>, String> {
    let annotations = preamble.map_or(&[][..], |p| &p.annotations[..]);
    match restriction::of(annotations, word, names, priority) {
        Ok(found) => Ok(found.map(Arc::new)),
        Err(e) => Err(format!("@{word}, {e}")),
    }
}

/// What binding works on.
struct Binding<'a> {
    info: &'a info::P4Info,
    names: &'a Names,
    program: &'a Program,
    seen: HashSet<u32>,
    /// Bits of the program's types, by name, as far as they are known.
    widths: HashMap<String, u32>,
    out: Schema,
}

impl Schema {
    /// A client's P4Info, bound to a program.
    pub fn bind(info: &info::P4Info, names: &Names, program: &Program) -> Result<Schema, Fault> {
        Schema::bind_after(info, names, program, &HashMap::new())
    }

    /// The same, with strings of translated types that have numbers already.
    pub fn bind_after(
        info: &info::P4Info,
        names: &Names,
        program: &Program,
        strings: &HashMap<(String, u32), Arc<Strings>>,
    ) -> Result<Schema, Fault> {
        let out = Schema { strings: strings.clone(), ..Schema::default() };
        let widths = names.new_types.iter().cloned().collect();
        let mut binding = Binding { info, names, program, seen: HashSet::new(), widths, out };
        binding.all()?;
        Ok(binding.out)
    }

    /// A role may write what has this id.
    pub fn allows(&self, role: &str, id: u32) -> bool {
        role.is_empty() || self.roles.get(&id).is_none_or(|only| only == role)
    }
}

/// A list of known names, if it is short.
fn known<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = names.take(17).collect();
    match all.len() {
        0 => "; the program has none".to_owned(),
        17 => String::new(),
        _ => format!("; the program has {}", all.join(", ")),
    }
}

fn size(declared: i64, real: u32, what: &str, name: &str) -> Result<(), Fault> {
    match declared == i64::from(real) {
        true => Ok(()),
        false => Err(fault!(
            InvalidArgument,
            "P4Info, {what} `{name}`: size {declared}; the program's has {real}"
        )),
    }
}

impl Binding<'_> {
    fn all(&mut self) -> Result<(), Fault> {
        self.actions()?;
        let info = self.info;
        for t in &info.tables {
            self.table(t)?;
        }
        self.action_restrictions()?;
        for p in &info.action_profiles {
            self.profile(p)?;
        }
        self.counters()?;
        self.meters()?;
        for r in &info.registers {
            self.register(r)?;
        }
        for v in &info.value_sets {
            self.value_set(v)?;
        }
        for d in &info.digests {
            self.digest(d)?;
        }
        for header in &info.controller_packet_metadata {
            self.header(header)?;
        }
        self.port()?;
        match info.externs.iter().find(|e| !e.instances.is_empty()) {
            None => Ok(()),
            Some(e) => Err(fault!(
                Unimplemented,
                "P4Info has instances of the extern `{}`, which is not known here",
                e.extern_type_name
            )),
        }
    }

    /// A thing's id and name; each id is there once.
    fn preamble<'p>(
        &mut self,
        preamble: Option<&'p info::Preamble>,
        what: &str,
    ) -> Result<(u32, &'p str), Fault> {
        let p =
            preamble.ok_or_else(|| fault!(InvalidArgument, "P4Info: {what} without preamble"))?;
        if p.id == 0 {
            return Err(fault!(InvalidArgument, "P4Info, {what} `{}`: its id is 0", p.name));
        }
        if !self.seen.insert(p.id) {
            return Err(fault!(
                InvalidArgument,
                "P4Info, {what} `{}`: the id {} is that of another thing, too",
                p.name,
                p.id
            ));
        }
        if let Some(role) = role_of(&p.annotations) {
            self.out.roles.insert(p.id, role);
        }
        Ok((p.id, &p.name))
    }

    fn actions(&mut self) -> Result<(), Fault> {
        for a in &self.info.actions {
            let (id, name) = self.preamble(a.preamble.as_ref(), "the action")?;
            let mut ids = HashSet::new();
            let mut params = Vec::new();
            for p in &a.params {
                if p.id == 0 || !ids.insert(p.id) {
                    return Err(fault!(
                        InvalidArgument,
                        "P4Info, the action `{name}`, parameter `{}`: the id {} is 0 or there twice",
                        p.name,
                        p.id
                    ));
                }
                let width = u32::try_from(p.bitwidth).unwrap_or(0);
                params.push(Param { id: p.id, name: p.name.clone(), width, sdn: Sdn::Plain });
            }
            let action = Action { name: name.to_owned(), params, restriction: None };
            self.out.actions.insert(id, action);
        }
        Ok(())
    }

    fn action_restrictions(&mut self) -> Result<(), Fault> {
        for a in &self.info.actions {
            let id = a.preamble.as_ref().map_or(0, |p| p.id);
            let Some(own) = self.out.actions.get_mut(&id) else { continue };
            let names: Vec<restriction::Name> = own.params.iter().map(name_of_param).collect();
            own.restriction = restricted(a.preamble.as_ref(), restriction::ACTION, &names, false)
                .map_err(|e| {
                fault!(InvalidArgument, "P4Info, the action `{}`, {e}", own.name)
            })?;
        }
        Ok(())
    }

    /// How the client writes values of a type that it names, which has so many bits in the program.
    fn sdn(
        &mut self,
        type_name: Option<&info::P4NamedType>,
        told: i32,
        width: u32,
        at: &str,
    ) -> Result<Sdn, Fault> {
        use info::p4_new_type_spec::Representation as R;
        use info::p4_new_type_translation::SdnType;
        let Some(named) = type_name else { return Ok(Sdn::Plain) };
        let types = self.info.type_info.as_ref();
        let spec = types.and_then(|t| t.new_types.get(&named.name));
        let Some(R::TranslatedType(t)) = spec.and_then(|s| s.representation.as_ref()) else {
            return Ok(Sdn::Plain);
        };
        self.widths.insert(named.name.clone(), width);
        match &t.sdn_type {
            Some(SdnType::SdnBitwidth(bits)) if *bits == told && *bits > 0 => {
                Ok(if i64::from(*bits) == i64::from(width) { Sdn::Plain } else { Sdn::Number })
            }
            Some(SdnType::SdnBitwidth(bits)) => Err(fault!(
                InvalidArgument,
                "P4Info, {at}: {told} bits; its type `{}` is translated to {bits}",
                named.name
            )),
            Some(SdnType::SdnString(_)) => {
                let uri = if t.uri.is_empty() { &named.name } else { &t.uri };
                let key = (uri.clone(), width);
                let strings = self.out.strings.entry(key);
                Ok(Sdn::Text(strings.or_insert_with(|| Arc::new(Strings::new(width))).clone()))
            }
            None => Err(fault!(
                InvalidArgument,
                "P4Info, the type `{}` is translated, but not to what: sdn_bitwidth or sdn_string is needed",
                named.name
            )),
        }
    }

    /// An action that a table's list names, as the table has it.
    fn action_in(&mut self, t: &TableName, id: u32) -> Result<(ActionId, bool), Fault> {
        let Some(action) = self.out.actions.get(&id) else {
            return Err(fault!(
                InvalidArgument,
                "P4Info, the table `{}`: no action has the id {id}",
                t.name
            ));
        };
        let Some(a) = t.actions.iter().find(|a| a.name == action.name) else {
            // A table without a default of its own has this one.
            if action.name == "NoAction" {
                let default = self.program.tables[t.id.index()].default.action;
                return Ok((t.of_default(default), true));
            }
            return Err(fault!(
                InvalidArgument,
                "P4Info, the table `{}`: it has no action `{}`{}",
                t.name,
                action.name,
                known(t.actions.iter().map(|a| a.name.as_str()))
            ));
        };
        if a.params.len() != action.params.len() {
            return Err(fault!(
                InvalidArgument,
                "P4Info, the action `{}` has {} parameters; the program's has {}",
                action.name,
                action.params.len(),
                a.params.len()
            ));
        }
        let action_name = action.name.clone();
        let told =
            self.info.actions.iter().find(|a| a.preamble.as_ref().is_some_and(|p| p.id == id));
        let params = told.map_or(&[][..], |a| &a.params[..]);
        for (n, (told, (name, width))) in params.iter().zip(&a.params).enumerate() {
            let at = format!("the action `{action_name}`, parameter `{}`", told.name);
            let sdn = self.sdn(told.type_name.as_ref(), told.bitwidth, *width, &at)?;
            let same = sdn.translates() || i64::from(told.bitwidth) == i64::from(*width);
            if told.name != *name || !same {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, the action `{action_name}`: the parameter `{}` of {} bits; the program's is `{name}` of {width}",
                    told.name,
                    told.bitwidth
                ));
            }
            let own = self.out.actions.get_mut(&id).and_then(|a| a.params.get_mut(n));
            if let Some(own) = own {
                (own.width, own.sdn) = (*width, sdn);
            }
        }
        Ok((a.id, a.default_only))
    }

    fn table(&mut self, t: &info::Table) -> Result<(), Fault> {
        let (id, name) = self.preamble(t.preamble.as_ref(), "the table")?;
        let names = self.names;
        let written = || names.tables.iter().filter(|t| t.source.is_some());
        let Some(own) = written().find(|own| own.name == name) else {
            return Err(fault!(
                InvalidArgument,
                "P4Info: the program has no table `{name}`{}",
                known(written().map(|t| t.name.as_str()))
            ));
        };
        let mut fields = Vec::new();
        let mut ids = HashSet::new();
        for f in &t.match_fields {
            if f.id == 0 || !ids.insert(f.id) {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, the table `{name}`, field `{}`: the id {} is 0 or there twice",
                    f.name,
                    f.id
                ));
            }
            fields.push(self.field(own, f)?);
        }
        if fields.len() != own.keys.len() {
            return Err(fault!(
                InvalidArgument,
                "P4Info, the table `{name}` has {} match fields; the program's has {}",
                fields.len(),
                own.keys.len()
            ));
        }
        let mut actions = BTreeMap::new();
        for a in &t.action_refs {
            let (action, default_only) = self.action_in(own, a.id)?;
            let scope = a.scope();
            use info::action_ref::Scope as S;
            let own_group_only = own.actions.iter().any(|o| o.id == action && o.group_only);
            let of_groups = scope == S::GroupAction || own_group_only;
            if of_groups != own_group_only {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, the table `{name}`: its action {} has the scope GROUP_ACTION, which the program's \
                     @groupaction does not say",
                    a.id
                ));
            }
            let in_entries = !default_only && scope != S::DefaultOnly && !of_groups;
            let as_default = scope != S::TableOnly && !of_groups;
            actions.insert(a.id, ActionUse { action, in_entries, as_default, of_groups });
            self.out.action_ids.insert((own.id, action), a.id);
        }
        let profile = match (own.profile, t.implementation_id) {
            (None, 0) => None,
            (Some(_), id) if id != 0 => Some(id),
            _ => {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, the table `{name}`: implementation_id {}; the program's table has {}",
                    t.implementation_id,
                    if own.profile.is_some() { "an action profile" } else { "none" }
                ));
            }
        };
        let direct = |id: &u32| {
            let of = |p: &Option<info::Preamble>| p.as_ref().is_some_and(|p| p.id == *id);
            let meters = self.info.direct_meters.iter();
            meters.into_iter().any(|m| of(&m.preamble))
        };
        let meter = t.direct_resource_ids.iter().find(|id| direct(id)).copied();
        let counter = t.direct_resource_ids.iter().find(|id| !direct(id)).copied();
        let lacks = |what: &str| {
            fault!(
                InvalidArgument,
                "P4Info, the table `{name}` has a {what}; the program's has none"
            )
        };
        let meter = match (meter, &own.meter) {
            (Some(id), Some(own)) => Some((id, own.packets)),
            (Some(_), None) => return Err(lacks("direct meter")),
            (None, _) => None,
        };
        if counter.is_some() && own.counter.is_none() {
            return Err(lacks("direct counter"));
        }
        let names: Vec<restriction::Name> = fields.iter().map(name_of_key).collect();
        let restriction = restricted(t.preamble.as_ref(), restriction::ENTRY, &names, true)
            .map_err(|e| fault!(InvalidArgument, "P4Info, the table `{name}`, {e}"))?;
        let bound = Table {
            restriction,
            id,
            name: name.to_owned(),
            table: own.id,
            fields,
            actions,
            profile,
            prioritised: prioritised(own),
            const_default: t.const_default_action_id != 0
                || self.program.tables[own.id.index()].default_const,
            is_const: own.entries_const,
            has_initial: t.has_initial_entries,
            timeouts: own.timeouts,
            counter,
            default_counter: own.default_counter.as_ref().map(|c| c.array),
            meter,
            role: self.out.roles.get(&id).cloned(),
        };
        self.out.table_ids.insert(own.id, id);
        self.out.tables.insert(id, bound);
        Ok(())
    }

    fn field(&mut self, t: &TableName, f: &info::MatchField) -> Result<Field, Fault> {
        let name = match f.name.strip_suffix(".$valid$") {
            Some(header) => format!("{header}.isValid()"),
            None => f.name.clone(),
        };
        let at = t.keys.iter().position(|k| k.name == name);
        let Some((at, key)) = at.map(|at| (at, &t.keys[at])) else {
            return Err(fault!(
                InvalidArgument,
                "P4Info, the table `{}`: it has no key `{name}`{}",
                t.name,
                known(t.keys.iter().map(|k| k.name.as_str()))
            ));
        };
        use info::match_field::{Match, MatchType as M};
        let kind = match f.r#match {
            Some(Match::MatchType(m)) => match M::try_from(m) {
                Ok(M::Exact) => Some(MatchKind::Exact),
                Ok(M::Lpm) => Some(MatchKind::Lpm),
                Ok(M::Ternary) => Some(MatchKind::Ternary),
                Ok(M::Range) => Some(MatchKind::Range),
                Ok(M::Optional) => Some(MatchKind::Optional),
                _ => None,
            },
            _ => None,
        };
        if kind != Some(key.kind) {
            return Err(fault!(
                InvalidArgument,
                "P4Info, the table `{}`, key `{name}`: its match type is not {}, which the program says",
                t.name,
                key.kind.word()
            ));
        }
        let at_key = format!("the table `{}`, key `{name}`", t.name);
        let sdn = self.sdn(f.type_name.as_ref(), f.bitwidth, key.width, &at_key)?;
        if !sdn.translates() && i64::from(f.bitwidth) != i64::from(key.width) {
            return Err(fault!(
                InvalidArgument,
                "P4Info, {at_key}: {} bits; the program's has {}",
                f.bitwidth,
                key.width
            ));
        }
        if sdn.translates() && !matches!(key.kind, MatchKind::Exact | MatchKind::Optional) {
            return Err(fault!(
                InvalidArgument,
                "P4Info, {at_key}: its type is translated, so that the key has to be exact or optional"
            ));
        }
        let key_at = u16::try_from(at).unwrap_or(u16::MAX);
        let (width, kind) = (key.width, key.kind);
        Ok(Field { id: f.id, name: f.name.clone(), key: key_at, width, kind, sdn })
    }

    fn profile(&mut self, p: &info::ActionProfile) -> Result<(), Fault> {
        let (id, name) = self.preamble(p.preamble.as_ref(), "the action profile")?;
        let Some(own) = self.names.profiles.iter().find(|own| own.name == name) else {
            return Err(fault!(
                InvalidArgument,
                "P4Info: the program has no action profile `{name}`{}",
                known(self.names.profiles.iter().map(|p| p.name.as_str()))
            ));
        };
        if own.selector != p.with_selector {
            return Err(fault!(
                InvalidArgument,
                "P4Info, `{name}`: with_selector is {}; the program says {}",
                p.with_selector,
                own.selector
            ));
        }
        size(p.size, own.size, "the action profile", name)?;
        let mut actions = BTreeMap::new();
        for table in &own.tables {
            let bound = self.out.table_ids.get(table).and_then(|id| self.out.tables.get(id));
            for (id, a) in bound.iter().flat_map(|t| &t.actions) {
                if a.in_entries {
                    actions.insert(*id, a.action);
                }
            }
        }
        let selector = own.selector;
        self.out.profiles.insert(id, Profile { id, name: name.to_owned(), selector, actions });
        Ok(())
    }

    fn counters(&mut self) -> Result<(), Fault> {
        for c in &self.info.counters {
            let (id, name) = self.preamble(c.preamble.as_ref(), "the counter")?;
            let Some((_, first)) = self.names.counters.iter().find(|own| own.0 == name) else {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info: the program has no counter `{name}`{}",
                    known(self.names.counters.iter().map(|c| c.0.as_str()))
                ));
            };
            let real = self.program.counters.get(*first as usize).map_or(0, |c| c.size);
            size(c.size, real, "the counter", name)?;
            let array = Array { name: name.to_owned(), first: *first, size: real, packets: false };
            self.out.counters.insert(id, array);
        }
        for c in &self.info.direct_counters {
            let (id, name) = self.preamble(c.preamble.as_ref(), "the direct counter")?;
            let table = self.out.tables.get(&c.direct_table_id);
            if table.is_none_or(|t| t.counter != Some(id)) {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, the direct counter `{name}`: its table {} does not list it",
                    c.direct_table_id
                ));
            }
            self.out.direct_counters.insert(id, c.direct_table_id);
        }
        Ok(())
    }

    fn meters(&mut self) -> Result<(), Fault> {
        for m in &self.info.meters {
            let (id, name) = self.preamble(m.preamble.as_ref(), "the meter")?;
            let Some(own) = self.names.meters.iter().find(|own| own.name == name) else {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info: the program has no meter `{name}`{}",
                    known(self.names.meters.iter().map(|m| m.name.as_str()))
                ));
            };
            size(m.size, own.size, "the meter", name)?;
            let (first, packets) = (own.first, own.packets);
            let array = Array { name: name.to_owned(), first, size: own.size, packets };
            self.out.meters.insert(id, array);
        }
        for m in &self.info.direct_meters {
            let (id, name) = self.preamble(m.preamble.as_ref(), "the direct meter")?;
            let table = self.out.tables.get(&m.direct_table_id);
            if table.is_none_or(|t| t.meter.is_none_or(|(own, _)| own != id)) {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, the direct meter `{name}`: its table {} does not list it",
                    m.direct_table_id
                ));
            }
        }
        Ok(())
    }

    fn register(&mut self, r: &info::Register) -> Result<(), Fault> {
        let (id, name) = self.preamble(r.preamble.as_ref(), "the register")?;
        let Some((_, register, width)) = self.names.registers.iter().find(|own| own.0 == name)
        else {
            return Err(fault!(
                InvalidArgument,
                "P4Info: the program has no register `{name}`{}",
                known(self.names.registers.iter().map(|r| r.0.as_str()))
            ));
        };
        let real = self.program.registers[register.index()].size;
        size(r.size.into(), real, "the register", name)?;
        use info::p4_data_type_spec::TypeSpec as T;
        let is_bool =
            matches!(r.type_spec.as_ref().and_then(|t| t.type_spec.as_ref()), Some(T::Bool(_)));
        let (register, width) = (*register, *width);
        let sdn = match r.type_spec.as_ref().and_then(|t| t.type_spec.as_ref()) {
            Some(T::NewType(named)) => self.of_new_type(named, width, name)?,
            _ => Sdn::Plain,
        };
        let register =
            Register { name: name.to_owned(), register, width, size: real, is_bool, sdn };
        self.out.registers.insert(id, register);
        Ok(())
    }

    fn value_set(&mut self, v: &info::ValueSet) -> Result<(), Fault> {
        let (id, name) = self.preamble(v.preamble.as_ref(), "the value set")?;
        let Some((_, set, widths)) = self.names.value_sets.iter().find(|own| own.0 == name) else {
            return Err(fault!(
                InvalidArgument,
                "P4Info: the program has no value set `{name}`{}",
                known(self.names.value_sets.iter().map(|v| v.0.as_str()))
            ));
        };
        let mut fields = Vec::new();
        let mut told = Vec::new();
        for (i, f) in v.r#match.iter().enumerate() {
            let bits = u32::try_from(f.bitwidth).unwrap_or(0);
            let width = widths.get(i).copied().unwrap_or(bits);
            let at = format!("the value set `{name}`, field {}", f.id);
            let sdn = self.sdn(f.type_name.as_ref(), f.bitwidth, width, &at)?;
            told.push(if sdn.translates() { width } else { bits });
            fields.push(Param { id: f.id, name: f.name.clone(), width, sdn });
        }
        if told != *widths {
            return Err(fault!(
                InvalidArgument,
                "P4Info, the value set `{name}`: fields of {told:?} bits; the program's have {widths:?}"
            ));
        }
        let real = self.program.value_sets[set.index()].capacity;
        size(v.size.into(), real, "the value set", name)?;
        let bound = ValueSet { name: name.to_owned(), set: *set, fields, size: real };
        self.out.value_sets.insert(id, bound);
        Ok(())
    }

    fn digest(&mut self, d: &info::Digest) -> Result<(), Fault> {
        let (id, name) = self.preamble(d.preamble.as_ref(), "the digest")?;
        let all = (0u32..).zip(&self.program.digests);
        let Some((n, own)) = all.into_iter().find(|(_, own)| own.name == name) else {
            return Err(fault!(
                InvalidArgument,
                "P4Info: the program has no digest `{name}`{}",
                known(self.program.digests.iter().map(|d| d.name.as_str()))
            ));
        };
        let mut widths = own.fields.iter().map(|f| f.width);
        let shape = match &d.type_spec {
            Some(t) => self.shape(t, 0, &mut widths, name)?,
            None => None,
        };
        // Without a type its fields are those of a struct.
        let flat = || Shape::Struct(vec![Shape::Bits(Sdn::Plain); own.fields.len()]);
        let shape = shape.filter(|s| leaves(s) == own.fields.len()).unwrap_or_else(flat);
        let digest = Digest { id, name: name.to_owned(), digest: DigestId(n), shape };
        self.out.digests.insert(id, digest);
        Ok(())
    }

    /// The client has other values of this type than the program.
    fn is_translated(&self, named: &info::P4NamedType) -> bool {
        use info::p4_new_type_spec::Representation as R;
        let types = self.info.type_info.as_ref();
        let spec = types.and_then(|t| t.new_types.get(&named.name));
        matches!(spec.and_then(|s| s.representation.as_ref()), Some(R::TranslatedType(_)))
    }

    /// How the client writes values of a new type of so many bits.
    fn of_new_type(
        &mut self,
        named: &info::P4NamedType,
        width: u32,
        of: &str,
    ) -> Result<Sdn, Fault> {
        use info::p4_new_type_spec::Representation as R;
        use info::p4_new_type_translation::SdnType;
        let types = self.info.type_info.as_ref();
        let spec = types.and_then(|t| t.new_types.get(&named.name));
        let told = match spec.and_then(|s| s.representation.as_ref()) {
            Some(R::TranslatedType(t)) => match t.sdn_type {
                Some(SdnType::SdnBitwidth(bits)) => bits,
                _ => 0,
            },
            _ => 0,
        };
        self.sdn(Some(named), told, width, &format!("`{of}`"))
    }

    /// A type's shape, as far as `type_info` tells it. `widths` are those of the program's values in order.
    fn shape(
        &mut self,
        t: &info::P4DataTypeSpec,
        depth: u32,
        widths: &mut dyn Iterator<Item = u32>,
        of: &str,
    ) -> Result<Option<Shape>, Fault> {
        use info::p4_data_type_spec::TypeSpec as T;
        use info::p4_new_type_spec::Representation as R;
        if depth > 16 {
            return Ok(None);
        }
        let types = self.info.type_info.as_ref();
        let Some(spec) = &t.type_spec else { return Ok(None) };
        let members: Vec<&info::P4DataTypeSpec> = match spec {
            T::Bitstring(_) | T::SerializableEnum(_) => {
                widths.next();
                return Ok(Some(Shape::Bits(Sdn::Plain)));
            }
            T::Bool(_) => {
                widths.next();
                return Ok(Some(Shape::Bool));
            }
            T::NewType(named) => {
                let new = types.and_then(|t| t.new_types.get(&named.name));
                return match new.and_then(|n| n.representation.as_ref()) {
                    Some(R::OriginalType(t)) => self.shape(t, depth + 1, widths, of),
                    Some(R::TranslatedType(_)) => {
                        let Some(width) = widths.next() else { return Ok(None) };
                        Ok(Some(Shape::Bits(self.of_new_type(named, width, of)?)))
                    }
                    None => Ok(None),
                };
            }
            T::Tuple(tuple) => tuple.members.iter().collect(),
            T::Struct(named) => match types.and_then(|t| t.structs.get(&named.name)) {
                Some(of) => of.members.iter().filter_map(|m| m.type_spec.as_ref()).collect(),
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        let mut all = Vec::new();
        for m in members {
            match self.shape(m, depth + 1, widths, of)? {
                Some(shape) => all.push(shape),
                None => return Ok(None),
            }
        }
        Ok(Some(match spec {
            T::Tuple(_) => Shape::Tuple(all),
            _ => Shape::Struct(all),
        }))
    }
}

/// How many values a shape has.
fn leaves(shape: &Shape) -> usize {
    match shape {
        Shape::Bits(_) | Shape::Bool => 1,
        Shape::Struct(all) | Shape::Tuple(all) => all.iter().map(leaves).sum(),
    }
}

//! What the control plane calls the parts of a program.

use crate::types::{ActionId, TableId, TyId};
use ir::program::MatchKind;

/// A key.
#[derive(Clone, Debug)]
pub struct KeyName {
    /// Its name: what is written, or `@name`.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// How it is compared.
    pub kind: MatchKind,
    /// Its place among the keys that are written.
    pub source: usize,
}

/// An action as a table uses it.
#[derive(Clone, Debug)]
pub struct ActionName {
    /// Full name.
    pub name: String,
    /// In the pipeline.
    pub id: ir::ActionId,
    /// As it was written; none of the architecture's own.
    pub source: Option<ActionId>,
    /// Parameters from the control plane: names and widths in bits.
    pub params: Vec<(String, u32)>,
    /// Only as default.
    pub default_only: bool,
    /// Only as the action of a group, `@groupaction`.
    pub group_only: bool,
    /// After those parameters comes the number of a meter, 32 bits.
    pub metered: bool,
    /// That meter is the entry's own; if not, it is one that is green.
    pub asks_own: bool,
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableName {
    /// Full name.
    pub name: String,
    /// In the pipeline.
    pub id: ir::TableId,
    /// As it was written; none of the architecture's own.
    pub source: Option<TableId>,
    /// Entries that the program asks for room for.
    pub size: u32,
    /// Keys.
    pub keys: Vec<KeyName>,
    /// Actions.
    pub actions: Vec<ActionName>,
    /// Its direct counter's name.
    pub counter: Option<String>,
    /// What counts its default action, if it has a direct counter.
    pub default_counter: Option<DefaultCounter>,
    /// Its direct meter.
    pub meter: Option<DirectMeter>,
    /// It has no keys, so that no entries are in it.
    pub keyless: bool,
    /// Number of its action profile or selector in [`Names::profiles`].
    pub profile: Option<usize>,
    /// What its entries with groups do.
    pub selector: Option<Selector>,
    /// `const entries`: the control plane may not change them.
    pub entries_const: bool,
    /// `support_timeout`: entries may be told of when no packet has matched them for so long.
    pub timeouts: bool,
}

/// What counts a table's default action: it is called as another action, which counts first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefaultCounter {
    /// The counter array, which has one cell.
    pub array: u32,
    /// Actions, and what is called in their place.
    pub actions: Vec<(ir::ActionId, ir::ActionId)>,
}

/// A meter in each entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectMeter {
    /// Full name.
    pub name: String,
    /// Rates count packets; otherwise bytes.
    pub packets: bool,
}

/// How an entry leads to a member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The action of such an entry, which chooses by a hash. Its arguments are the group (32 bits), how many members it has (16
    /// bits).
    pub action: ir::ActionId,
    /// The same, but it chooses at random.
    pub random: ir::ActionId,
    /// Actions that a group may have before a member's.
    pub before: Vec<GroupAction>,
    /// The table looked up next, by group (32 bits) and place (16 bits): the members' actions.
    pub members: ir::TableId,
}

/// A group's own action. What an entry of such a group calls has the action's arguments behind those of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAction {
    /// It, as the table has it.
    pub of: ir::ActionId,
    /// It, and then a choice by a hash.
    pub action: ir::ActionId,
    /// It, and then a choice at random.
    pub random: ir::ActionId,
}

/// An action profile or selector.
#[derive(Clone, Debug)]
pub struct ProfileName {
    /// Full name.
    pub name: String,
    /// It has groups.
    pub selector: bool,
    /// Most members.
    pub size: u32,
    /// Tables whose entries refer to its members.
    pub tables: Vec<ir::TableId>,
}

/// An instance of an extern.
#[derive(Clone, Debug)]
pub struct InstanceName {
    /// Full name.
    pub name: String,
    /// The extern's name.
    pub kind: String,
    /// Type arguments.
    pub types: Vec<TyId>,
    /// Arguments of its constructor that are numbers.
    pub numbers: Vec<Option<u32>>,
    /// What `@id` says.
    pub id: Option<u32>,
    /// What `@max_group_size` says.
    pub max_group_size: Option<u32>,
    /// Other annotations as they were written.
    pub annotations: Vec<String>,
}

/// A meter array.
#[derive(Clone, Debug)]
pub struct MeterName {
    /// Full name.
    pub name: String,
    /// Number of its first meter.
    pub first: u32,
    /// How many meters.
    pub size: u32,
    /// Rates count packets; otherwise bytes.
    pub packets: bool,
}

/// All names.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Tables.
    pub tables: Vec<TableName>,
    /// Counter arrays and their numbers.
    pub counters: Vec<(String, u32)>,
    /// Registers, and the width of a cell in bits.
    pub registers: Vec<(String, ir::RegisterId, u32)>,
    /// Meter arrays.
    pub meters: Vec<MeterName>,
    /// Actions that controls call in place, by full name; not those that only actions call.
    pub called: Vec<(String, ActionId)>,
    /// Everything made of externs, in order.
    pub instances: Vec<InstanceName>,
    /// Action profiles and selectors.
    pub profiles: Vec<ProfileName>,
    /// Value sets and the widths of their fields in bits.
    pub value_sets: Vec<(String, ir::ValueSetId, Vec<u32>)>,
    /// New types of the program, and their bits.
    pub new_types: Vec<(String, u32)>,
    /// CRCs whose parameters may be changed, in the order of their places.
    pub calculations: Vec<Calculation>,
    /// How many frames wait at each port, if the program asks: who hosts it writes this.
    pub queue_depth: Option<ir::RegisterId>,
    /// The action of a bucket of a multicast group: port (9 bits) and replica (16 bits).
    pub multicast: Option<ir::ActionId>,
    /// The action of a mirroring session for clones of ingress: port (9 bits) and replica (16 bits).
    pub mirror_ingress: Option<ir::ActionId>,
    /// The same for clones of egress.
    pub mirror_egress: Option<ir::ActionId>,
}

/// A CRC whose parameters may be changed: a use of `crc16_custom` or `crc32_custom`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calculation {
    /// `calc`, `calc_0`, `calc_1` and so on, in the order of their places in the text.
    pub name: String,
    /// Its parameters.
    pub crc: ir::Crc,
    /// Where it is, for one program.
    pub(super) place: u32,
}

/// Replicas that a session may have for clones of egress.
pub const EGRESS_REPLICAS_MAX: u32 = 16;

/// The meter of a table's default action.
pub fn default_meter_of(table: ir::TableId) -> ir::MeterId {
    ir::MeterId(0xc000_0000 | table.0)
}

/// A thing's name or the end of it after a dot.
fn ends(full: &str, name: &str) -> bool {
    full == name || full.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
}

/// The one whose name this is, or ends in it.
pub fn find<'a, T>(list: &'a [T], name_of: impl Fn(&T) -> &str, name: &str) -> Option<&'a T> {
    let name = name.strip_prefix('.').unwrap_or(name);
    list.iter()
        .find(|t| name_of(t) == name)
        .or_else(|| list.iter().find(|t| ends(name_of(t), name)))
        .or_else(|| list.iter().find(|t| ends(name, name_of(t))))
        .or_else(|| list.iter().find(|t| name_of(t).replace('.', "_") == name.replace('.', "_")))
}

impl Names {
    /// The table with this name; an end of its full name will do.
    pub fn table(&self, name: &str) -> Option<&TableName> {
        find(&self.tables, |t| &t.name, name)
    }
}

impl Selector {
    /// All actions that lead to a member.
    pub fn actions(&self) -> impl Iterator<Item = ir::ActionId> {
        let before = self.before.iter().flat_map(|b| [b.action, b.random]);
        [self.action, self.random].into_iter().chain(before)
    }
}

impl TableName {
    /// An action of the table that is called as its default.
    pub fn as_default(&self, action: ir::ActionId) -> ir::ActionId {
        let all = self.default_counter.iter().flat_map(|c| &c.actions);
        all.into_iter().find(|(own, _)| *own == action).map_or(action, |(_, counted)| *counted)
    }

    /// The action that a default calls.
    pub fn of_default(&self, action: ir::ActionId) -> ir::ActionId {
        let all = self.default_counter.iter().flat_map(|c| &c.actions);
        all.into_iter().find(|(_, counted)| *counted == action).map_or(action, |(own, _)| *own)
    }

    /// The action with this name; an end of its full name will do.
    pub fn action(&self, name: &str) -> Option<&ActionName> {
        find(&self.actions, |a| &a.name, name)
    }
}

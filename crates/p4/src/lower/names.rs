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
    /// The action of such an entry; its arguments are the group (32 bits) and how many members it has (16
    /// bits).
    pub action: ir::ActionId,
    /// The table looked up next, by group (32 bits) and place (16 bits): the members' actions.
    pub members: ir::TableId,
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

impl TableName {
    /// The action with this name; an end of its full name will do.
    pub fn action(&self, name: &str) -> Option<&ActionName> {
        find(&self.actions, |a| &a.name, name)
    }
}

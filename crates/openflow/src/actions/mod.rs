//! Actions: a file for each, or for a few of a kind, with everything about it.
//!
//! [`Row`] says what that is. The list below is the only one of all actions: the codecs, the text of flows and random tests
//! look a row up by an action, a number or a word. A new action is a variant of [`Action`], a file here and a line in the list;
//! what it does to packets is for `of-lower` to say.
//!
//! Cost: a lookup by number is an index, one by word a hash and mostly one comparison.
//! Checked by: round trips of random actions through bytes and text; checks at compile time that a row is whole, and that
//! no two have the same number or word.

mod absent;
mod bundle;
mod check_pkt_larger;
mod clone;
mod conjunction;
mod controller;
mod copy_field;
mod ct;
mod ct_clear;
mod dec_ttl;
mod delete_field;
mod enqueue;
mod exit;
mod experimenter;
mod fin_timeout;
mod learn;
mod multipath;
mod note;
mod output;
mod pop_queue;
mod resubmit;
pub(crate) mod row;
mod set_field;
pub(crate) mod softflow;
mod stack;
mod standard;
pub(crate) mod text;

pub(crate) use absent::absent;
pub(crate) use note::put_note;
pub use row::FieldUse;

use crate::action::{Action, ActionType};
use crate::field::FieldId;
use crate::ids::NICIRA;
use crate::version::Version;
use row::{Payload, Row};

macro_rules! rows {
    ($($variant:ident: $row:path,)*) => {
        /// The row of an action.
        #[inline]
        pub(crate) fn row(action: &Action) -> &'static Row {
            match action {
                $(Action::$variant { .. } => &$row,)*
            }
        }

        /// Every row.
        pub(crate) static ROWS: &[&Row] = &[$(&$row,)*];
    };
}

rows! {
    Output: output::OUTPUT,
    Controller: controller::CONTROLLER,
    Enqueue: enqueue::ENQUEUE,
    SetVlanVid: standard::SET_VLAN_VID,
    SetVlanPcp: standard::SET_VLAN_PCP,
    PopVlan: standard::POP_VLAN,
    SetNwSrc: standard::SET_NW_SRC,
    SetNwDst: standard::SET_NW_DST,
    SetNwTos: standard::SET_NW_TOS,
    SetTpSrc: standard::SET_TP_SRC,
    SetTpDst: standard::SET_TP_DST,
    CopyField: copy_field::COPY_FIELD,
    SetField: set_field::SET_FIELD,
    Experimenter: experimenter::EXPERIMENTER,
    Group: standard::GROUP,
    SetQueue: standard::SET_QUEUE,
    PushVlan: standard::PUSH_VLAN,
    PushMpls: standard::PUSH_MPLS,
    PopMpls: standard::POP_MPLS,
    PushPbb: standard::PUSH_PBB,
    PopPbb: standard::POP_PBB,
    SetNwTtl: standard::SET_NW_TTL,
    DecNwTtl: standard::DEC_NW_TTL,
    SetMplsTtl: standard::SET_MPLS_TTL,
    DecMplsTtl: standard::DEC_MPLS_TTL,
    Note: note::NOTE,
    Resubmit: resubmit::RESUBMIT,
    Learn: learn::LEARN,
    StackPush: stack::PUSH,
    StackPop: stack::POP,
    CheckPktLarger: check_pkt_larger::CHECK_PKT_LARGER,
    DeleteField: delete_field::DELETE_FIELD,
    Multipath: multipath::MULTIPATH,
    Bundle: bundle::BUNDLE,
    Clone: clone::CLONE,
    PopQueue: pop_queue::POP_QUEUE,
    FinTimeout: fin_timeout::FIN_TIMEOUT,
    Ct: ct::CT,
    CtClear: ct_clear::CT_CLEAR,
    Exit: exit::EXIT,
    Conjunction: conjunction::CONJUNCTION,
    Softflow: softflow::SOFTFLOW,
    DecNwTtlTo: dec_ttl::TO,
    OutputField: output::OUTPUT_FIELD,
    OutputTruncated: output::OUTPUT_TRUNCATED,
    CopyTtlIn: standard::COPY_TTL_IN,
    CopyTtlOut: standard::COPY_TTL_OUT,
    Meter: standard::METER,
}

/// A row by a number.
type ByNumber<const N: usize> = [Option<&'static Row>; N];

/// Rows by Nicira's numbers.
static NICIRA_ROWS: ByNumber<64> = {
    let mut table: ByNumber<64> = [None; 64];
    let mut i = 0;
    while i < ROWS.len() {
        assert!(ROWS[i].is_whole(), "a row lacks a function");
        let mut j = 0;
        while j < ROWS[i].nicira.len() {
            let number = ROWS[i].nicira[j] as usize;
            assert!(table[number].is_none(), "two rows have the same number of Nicira's");
            table[number] = Some(ROWS[i]);
            j += 1;
        }
        i += 1;
    }
    table
};

/// Rows by 1.0's numbers.
static V10_ROWS: ByNumber<12> = {
    let mut table: ByNumber<12> = [None; 12];
    let mut i = 0;
    while i < ROWS.len() {
        if let Some(number) = ROWS[i].v10 {
            assert!(table[number as usize].is_none(), "two rows have the same number of 1.0's");
            table[number as usize] = Some(ROWS[i]);
        }
        i += 1;
    }
    table
};

/// Rows by their types' numbers, of actions that have no form of their own there.
static STANDARD_ROWS: ByNumber<30> = {
    let mut table: ByNumber<30> = [None; 30];
    let mut i = 0;
    while i < ROWS.len() {
        let number = ROWS[i].action_type.wire() as usize;
        let own = matches!(ROWS[i].payload, Payload::Own) || is_of_v10(ROWS[i]);
        if number < table.len() && !own {
            assert!(table[number].is_none(), "two rows have the same number");
            table[number] = Some(ROWS[i]);
        }
        i += 1;
    }
    table
};

/// The row of one of Nicira's numbers.
#[inline]
pub(crate) fn of_nicira(subtype: u16) -> Option<&'static Row> {
    NICIRA_ROWS.get(usize::from(subtype)).copied().flatten()
}

/// The row of one of 1.0's numbers, if the action has no form of its own there.
#[inline]
pub(crate) fn of_v10(number: u16) -> Option<&'static Row> {
    V10_ROWS.get(usize::from(number)).copied().flatten()
}

/// The row of a type, if the action has no form of its own.
#[inline]
pub(crate) fn of_type(action_type: ActionType) -> Option<&'static Row> {
    STANDARD_ROWS.get(usize::from(action_type.wire())).copied().flatten()
}

/// A word, the first version that has it, and its row.
pub(crate) type RowWord = (&'static str, Version, &'static Row);

/// Places for words; twice as many as there are, or more.
const PLACES: usize = 256;

/// Rows by their words: each at its hash, or at the next place that was free.
static WORDS: [Option<RowWord>; PLACES] = {
    let mut table: [Option<RowWord>; PLACES] = [None; PLACES];
    let mut count = 0;
    let mut i = 0;
    while i < ROWS.len() {
        let mut j = 0;
        while j < ROWS[i].words.len() {
            let (word, since) = ROWS[i].words[j];
            let mut at = hash(word);
            while let Some((other, ..)) = table[at] {
                assert!(!is_same(word, other), "two rows have the same word");
                at = (at + 1) % PLACES;
            }
            table[at] = Some((word, since, ROWS[i]));
            count += 1;
            j += 1;
        }
        i += 1;
    }
    assert!(count * 2 <= PLACES, "a search for a word ends soon");
    table
};

/// Where a word's search begins, in whatever letter case.
const fn hash(word: &str) -> usize {
    let bytes = word.as_bytes();
    let (mut hash, mut i) = (bytes.len() as u32, 0);
    while i < bytes.len() {
        hash = hash.wrapping_mul(31).wrapping_add(bytes[i].to_ascii_lowercase() as u32);
        i += 1;
    }
    (hash ^ hash >> 8) as usize % PLACES
}

const fn is_same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

/// The row of a word, in whatever letter case.
#[inline]
pub(crate) fn of_word(word: &str) -> Option<RowWord> {
    let mut at = hash(word);
    while let Some(found) = WORDS[at] {
        if is_same(found.0, word) {
            return Some(found);
        }
        at = (at + 1) % PLACES;
    }
    None
}

/// Every word of an action.
pub(crate) fn words() -> impl Iterator<Item = &'static str> + Clone {
    ROWS.iter().flat_map(|row| row.words).map(|(word, _)| *word)
}

/// Whether 1.0 alone has the action.
const fn is_of_v10(row: &Row) -> bool {
    matches!(row.versions, [Version::V10])
}

impl Action {
    /// What refusals call it.
    pub fn name(&self) -> &'static str {
        row(self).name
    }

    /// The action's type, as table features name it.
    pub fn action_type(&self) -> ActionType {
        match self {
            Action::Experimenter(e) => ActionType::Experimenter(e.experimenter),
            other => row(other).action_type,
        }
    }

    /// Whether it is one of Open vSwitch's that no version of OpenFlow has.
    pub fn is_extension(&self) -> bool {
        row(self).action_type == ActionType::Experimenter(NICIRA)
    }

    /// One that only 1.0 has (1.0.2 §5.2.4): its settings name no version of IP and no protocol.
    pub fn is_of_v10(&self) -> bool {
        is_of_v10(row(self))
    }

    /// A field that the action names where its format has room for a header of four octets, and whose header is longer.
    pub(crate) fn field_without_room(&self) -> Option<FieldId> {
        let mut found = None;
        let mut see = |field: FieldId| {
            if field.has_long_header() {
                found = Some(field);
            }
        };
        match self {
            Action::OutputField { .. }
            | Action::Multipath(_)
            | Action::Bundle(_)
            | Action::Learn(_) => self.fields(&mut |_, field| see(field)),
            Action::Ct(ct) => {
                if let crate::extension::Zone::Field(bits) = ct.zone {
                    see(bits.of.field);
                }
            }
            _ => {}
        }
        found
    }

    /// Shows the fields that it names, and what it does with each. Of `clone` and `ct`, what they hold is not looked at.
    pub fn fields(&self, see: &mut dyn FnMut(FieldUse, FieldId)) {
        (row(self).fields)(self, see);
    }
}

#[cfg(test)]
mod tests {
    use super::row::Making;
    use super::*;
    use crate::testing::rng::Rng;

    #[test]
    fn a_word_leads_to_its_row_in_any_letter_case() {
        let mut count = 0;
        for row in ROWS {
            for (word, since) in row.words {
                for word in [word.to_string(), word.to_ascii_uppercase()] {
                    let found = of_word(&word).expect("it is there");
                    assert!(std::ptr::eq(found.2, *row) && found.1 == *since, "{word}");
                }
                count += 1;
            }
        }
        assert_eq!(words().count(), count);
        for other in ["", "outpu", "output2", "drop", "é", &"output".repeat(10_000)] {
            assert!(of_word(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_number_leads_to_its_row() {
        for subtype in 0..=u16::MAX {
            let known = of_nicira(subtype).is_some_and(|row| row.nicira.contains(&subtype));
            assert_eq!(known, ROWS.iter().any(|row| row.nicira.contains(&subtype)), "{subtype}");
        }
        let plain = of_v10(3).expect("1.0's strip_vlan");
        assert_eq!(plain.name, "pop_vlan");
        assert!(of_v10(0).is_none() && of_v10(12).is_none());
        // Those that have a form of their own.
        let own = [ActionType::Output, ActionType::SetField, ActionType::CopyField];
        for action_type in ActionType::STANDARD_V15 {
            let row = of_type(action_type);
            assert_eq!(row.is_none(), own.contains(&action_type), "{action_type:?}");
            assert!(row.is_none_or(|row| row.action_type == action_type), "{action_type:?}");
        }
        assert!(of_type(ActionType::Experimenter(NICIRA)).is_none());
    }

    #[test]
    fn a_row_makes_actions_of_its_own() {
        let mut rng = Rng::new(9);
        let action = |_: &mut Rng, _, _| Action::Exit;
        for of in ROWS {
            for version in of.versions {
                for _ in 0..20 {
                    let making = Making { version: *version, depth: 0, action };
                    let made = of.arbitrary(&mut rng, &making);
                    assert!(std::ptr::eq(row(&made), *of), "{made:?}");
                    assert_eq!(made.name(), of.name);
                    assert_eq!(made.is_of_v10(), of.versions == [Version::V10]);
                    // Whatever it names, nothing panics.
                    made.fields(&mut |_, _| {});
                }
            }
        }
    }

    #[test]
    fn what_an_action_names() {
        use crate::syntax::{Context, parse_actions};
        let named = |text: &str| {
            let list = parse_actions(text, &Context::new(Version::V15)).expect("it is read");
            let [crate::action::Instruction::ApplyActions(actions)] = &list[..] else { panic!() };
            let mut all = Vec::new();
            actions[0].fields(&mut |usage, field| all.push((usage, field)));
            all
        };
        use FieldUse::{Names, Reads, Writes};
        assert_eq!(named("ct_clear"), []);
        assert_eq!(named("set_field:1->reg3"), [(Writes, FieldId::Reg3)]);
        let copied = [(Reads, FieldId::Reg1), (Writes, FieldId::Reg2)];
        assert_eq!(named("move:reg1->reg2"), copied);
        assert_eq!(named("check_pkt_larger(9)->reg4[0]"), [(Writes, FieldId::Reg4)]);
        assert_eq!(named("output:reg5"), [(Reads, FieldId::Reg5)]);
        let learned = [
            (Writes, FieldId::Reg0),
            (Reads, FieldId::EthSrc),
            (Names, FieldId::EthDst),
            (Reads, FieldId::InPort),
        ];
        let learn =
            "learn(result_dst=reg0[0],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])";
        assert_eq!(named(learn), learned);
    }
}

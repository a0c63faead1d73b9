//! Chooses how each table is looked up, says why, and predicts what that costs.
//!
//! In: what a table holds (rules over a layout, or their summary), a [`Model`] of this machine, and
//! [`Options`]. Out: a [`TablePlan`]: a template with the reasons, in the words that `explain` prints;
//! for a table that no single template serves well, a [`Tree`] of smaller tables that do. From plans
//! and packet counts, [`Model::predict`] says what a packet will cost, atom by atom.
//!
//! | module | does |
//! |---|---|
//! | [`decompose`] | one table into several that fit faster templates (ESWITCH fig. 6, extended to masks) |
//! | [`choose`] | picks a template; each declines with a reason |
//! | [`cost`] | prices: what each step costs, by the size of what it touches |
//! | [`calibrate`] | measures those prices on this machine |
//!
//! Absences: nothing here touches packets or tables in use, and nothing knows OpenFlow or P4.
//!
//! Checked by: unit tests beside the code; `tests/model.rs`, which looks random tables up in their
//! decomposition and rule by rule.

pub mod calibrate;
pub mod choose;
pub mod cost;
pub mod decompose;

pub use choose::{Decomposition, Facts, Options, Refused, TablePlan, Verdict, choose_table};
pub use cost::{Cost, Model, Prediction, Stage, Template};
pub use decompose::{Cell, Column, Flows, Row, Target, Tree};

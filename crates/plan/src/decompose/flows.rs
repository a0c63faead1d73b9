//! A table of flows: columns, and rows of cells.

use super::cell::{Cell, Meet, top};
use super::declined::Declined;
use classify::Layout;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name in reports.
    pub name: String,
    /// Its width in bits, 1 to 128.
    pub bits: u32,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Row {
    /// The entry's id.
    pub id: u32,
    /// The entry's action.
    pub action: u32,
    /// One pattern per column.
    pub cells: Box<[Cell]>,
}

/// A table in full: the first row that matches wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Flows {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, best first.
    pub rows: Vec<Row>,
}

impl Flows {
    /// The id of the first row that matches; the meaning of the table.
    pub fn lookup(&self, key: &[u128]) -> Option<u32> {
        let hit = |row: &&Row| row.cells.iter().zip(key).all(|(cell, &key)| cell.contains(key));
        self.rows.iter().find(hit).map(|row| row.id)
    }

    /// A table from its packed form, with the place of each column in the key. `names` has a column
    /// per field of the layout; fields without one are named by their number and as wide as their
    /// bytes. A field of more than 16 bytes becomes several columns.
    pub fn of_rules(
        layout: &Layout,
        names: &[Column],
        rules: &[classify::Rule],
    ) -> Result<(Flows, Vec<Place>), Declined> {
        let mut columns = Vec::new();
        let mut places: Vec<Place> = Vec::new();
        for (at, field) in layout.fields().iter().enumerate() {
            let name = names.get(at).map_or_else(|| format!("field {at}"), |c| c.name.clone());
            if field.len <= COLUMN_BYTES_MAX {
                let all = 8 * field.len as u32;
                let bits = names.get(at).map_or(all, |c| if c.bits == 0 { all } else { c.bits });
                columns.push(Column { name, bits: bits.min(all) });
                places.push(*field);
                continue;
            }
            for offset in (0..field.len).step_by(COLUMN_BYTES_MAX) {
                let len = COLUMN_BYTES_MAX.min(field.len - offset);
                let name = format!("{name}[{offset}..{}]", offset + len);
                columns.push(Column { name, bits: 8 * len as u32 });
                places.push(Place { offset: field.offset + offset, len });
            }
        }
        let mut ordered: Vec<&classify::Rule> = rules.iter().collect();
        ordered.sort_by(|a, b| a.precedence(b));
        let mut rows = Vec::with_capacity(rules.len());
        for rule in ordered {
            if rule.checked(layout).is_err() {
                continue;
            }
            if let Some(cells) = cells_of(rule, &columns, &places)? {
                rows.push(Row { id: rule.id, action: rule.action, cells });
            }
        }
        Ok((Flows { columns, rows }, places))
    }
}

/// Bytes of the widest column.
pub(super) const COLUMN_BYTES_MAX: usize = 16;

/// Where a column lies in a packed key: a field of the layout, or a part of a wide one.
pub type Place = classify::Field;

/// A rule's demands by column; none if no key satisfies them.
pub(super) fn cells_of(
    rule: &classify::Rule,
    columns: &[Column],
    places: &[Place],
) -> Result<Option<Box<[Cell]>>, Declined> {
    let mut taken = 0;
    let mut cells = Vec::with_capacity(columns.len());
    for (column, place) in columns.iter().zip(places) {
        let bytes = |of: &[u8]| {
            of[place.offset..][..place.len].iter().fold(0u128, |n, &b| n << 8 | u128::from(b))
        };
        let (value, mask) = (bytes(&rule.value), bytes(&rule.mask));
        if value & mask & !top(column.bits) != 0 {
            return Ok(None);
        }
        let mut ends: Option<(u128, u128)> = None;
        for range in &rule.ranges {
            if (range.offset as usize, usize::from(range.len)) == (place.offset, place.len) {
                let (lo, hi) = ends.unwrap_or((0, top(column.bits)));
                ends = Some((lo.max(range.lo), hi.min(range.hi)));
                taken += 1;
            }
        }
        let bits = Cell::Bits { value, mask }.canonical(column.bits);
        cells.push(match ends.map(|(lo, hi)| Cell::Range { lo, hi }.canonical(column.bits)) {
            None => bits,
            Some(Cell::Range { lo, hi }) if lo > hi => return Ok(None),
            Some(range) => match bits.meet(&range, column.bits) {
                Meet::Nothing => return Ok(None),
                Meet::Cell(cell) => cell,
                Meet::Odd => return Err(Declined::Mixed),
            },
        });
    }
    if taken < rule.ranges.len() {
        return Err(Declined::Mixed);
    }
    Ok(Some(cells.into()))
}

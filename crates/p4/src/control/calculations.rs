//! CRCs by their parameters.
//!
//! Parameters are constants of the program, so that code is made for them; other ones are another program,
//! with all that was put into this one.

use super::refused::{Refused, no};
use super::{Control, nearest};
use crate::lower::names::find;
use ir::{Crc, Expr, HashAlgorithm, Program, Update};
use std::sync::Arc;

/// Gives a function of a program other parameters.
pub(super) fn change(program: &mut Program, crc: Crc) {
    program.exprs_mut(&mut |e| {
        if let Expr::Hash { algorithm: HashAlgorithm::Crc(old), .. } = e
            && old.function == crc.function
        {
            *old = crc;
        }
    });
}

impl Control {
    /// Changes the parameters of the CRC with this name; of `crc`, its number does not matter. Entries and
    /// all else stay, meters start anew.
    pub fn set_crc(&mut self, name: &str, crc: Crc) -> Result<Vec<Update>, Refused> {
        let found = find(&self.names.calculations, |c| &c.name, name);
        let Some(found) = found.map(|c| c.crc) else {
            let known = self.names.calculations.iter().map(|c| c.name.as_str());
            return Err(no!(
                NotFound,
                "there is no CRC `{name}` that may be changed{}; `crc16_custom` and `crc32_custom` make them",
                nearest(name, known)
            ));
        };
        if found.width != crc.width {
            return Err(no!(
                NotFound,
                "`{name}` has {} bits: use set_crc{}_parameters",
                found.width,
                found.width
            ));
        }
        let crc = Crc { function: found.function, ..crc };
        let mut program = Program::clone(self.pipeline.program());
        change(&mut program, crc);
        let mut updates = vec![Update::SetProgram(Arc::new(program))];
        updates.extend(self.pipeline.contents());
        let updates = self.commit(updates)?;
        for calculation in &mut self.names.calculations {
            if calculation.crc.function == crc.function {
                calculation.crc = crc;
            }
        }
        Ok(updates)
    }
}

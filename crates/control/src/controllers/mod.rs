//! The kinds of controllers: a file and a row each.

mod gnmi;
mod kind;
pub mod openflow;
pub mod p4;

use crate::config::Config;
use crate::controller::{Begun, Controller, Controllers, Switches};
use crate::failure::Failure;
use kind::Kind;
use std::sync::Arc;
use switch::{Switch, Workers};

/// All kinds. The first that begins brings the switch's program.
const ALL: &[Kind] = &[p4::KIND, openflow::KIND, gnmi::KIND];

/// Starts the switch that the configuration describes, on these workers.
pub(crate) fn begin<'a>(
    config: &'a Config,
    workers: &Workers,
) -> Result<Box<dyn Begun + 'a>, Failure> {
    for kind in ALL {
        if let Some(begun) = (kind.begin)(config, workers)? {
            return Ok(begun);
        }
    }
    Err(Failure::usage("nothing programs this switch"))
}

/// All that program a switch, `first` among them. It is, or is about to be, one of `switches`.
pub(crate) fn join(
    config: &Config,
    switch: &Switch,
    first: Arc<dyn Controller>,
    switches: &Switches,
) -> Result<Controllers, Failure> {
    let mut all = vec![first];
    for kind in ALL {
        all.extend((kind.join)(config, switch, switches)?);
    }
    Ok(Controllers::of(all))
}

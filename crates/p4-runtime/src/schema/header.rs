//! The headers in front of packets to and from the controller.

use super::{Binding, Param};
use crate::code::{Fault, fault};
use crate::proto::info;
use crate::translation::Sdn;
use std::collections::HashSet;

impl Binding<'_> {
    pub(super) fn header(&mut self, h: &info::ControllerPacketMetadata) -> Result<(), Fault> {
        let (_, name) = self.preamble(h.preamble.as_ref(), "the controller header")?;
        let mut bits = 0u64;
        let mut fields = Vec::new();
        let mut ids = HashSet::new();
        for m in &h.metadata {
            let mut width = u32::try_from(m.bitwidth).unwrap_or(0);
            let at = format!("the controller header `{name}`, `{}`", m.name);
            let mut sdn = Sdn::Plain;
            if let Some(named) = m.type_name.as_ref().filter(|t| self.is_translated(t)) {
                let own = self.widths.get(&named.name).copied();
                width = own.ok_or_else(|| {
                    fault!(
                        InvalidArgument,
                        "P4Info, {at}: nothing tells how many bits its translated type `{}` has in the program",
                        named.name
                    )
                })?;
                sdn = self.sdn(Some(named), m.bitwidth, width, &at)?;
            }
            if m.id == 0 || !ids.insert(m.id) || width == 0 || width > 2048 {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info, the controller header `{name}`, `{}`: an id that is single and 1 to 2048 bits are \
                     needed, not id {} and {} bits",
                    m.name,
                    m.id,
                    m.bitwidth
                ));
            }
            bits += u64::from(width);
            fields.push(Param { id: m.id, name: m.name.clone(), width, sdn });
        }
        if !bits.is_multiple_of(8) {
            return Err(fault!(
                InvalidArgument,
                "P4Info, the controller header `{name}` has {bits} bits, which are no whole bytes"
            ));
        }
        match name {
            "packet_in" => self.out.packet_in = Some(fields),
            "packet_out" => self.out.packet_out = Some(fields),
            _ => {
                return Err(fault!(
                    InvalidArgument,
                    "P4Info: the controller header `{name}`; there are packet_in and packet_out"
                ));
            }
        }
        Ok(())
    }
}

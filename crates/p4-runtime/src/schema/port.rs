//! How a client writes ports where no field or parameter says it: replicas of multicast groups and clone sessions, and ports
//! that members of groups watch.
//!
//! v1model has no type for ports. What looks like one is: a translated type as wide as ports are, with `port` in its name or
//! its URI. Without one, and with several that differ, ports are the program's numbers.
//!
//! Checked by: `tests/translation.rs`.

use super::{Binding, PORT_BITS};
use crate::code::Fault;
use crate::proto::info;
use crate::translation::Sdn;

impl Binding<'_> {
    /// The type of ports: a translated one as wide as ports are, with `port` in its name or URI. Of several types with different
    /// values it is the one that is called `PortId_t` or `port_id_t`.
    pub(super) fn port(&mut self) -> Result<(), Fault> {
        use info::p4_new_type_spec::Representation as R;
        let types = self.info.type_info.iter().flat_map(|t| &t.new_types);
        let mut found: Vec<(String, Sdn)> = Vec::new();
        for (name, spec) in types {
            let Some(R::TranslatedType(t)) = &spec.representation else { continue };
            let says = |text: &str| text.to_ascii_lowercase().contains("port");
            if self.widths.get(name) != Some(&PORT_BITS) || !(says(name) || says(&t.uri)) {
                continue;
            }
            let named = info::P4NamedType { name: name.clone() };
            found.push((name.clone(), self.of_new_type(&named, PORT_BITS, name)?));
        }
        let same = found.windows(2).all(|two| two[0].1 == two[1].1);
        let plain = |name: &str| name.replace('_', "").eq_ignore_ascii_case("portidt");
        let chosen = match same {
            true => found.first(),
            false => found.iter().find(|(name, _)| plain(name)),
        };
        self.out.port = chosen.map_or(Sdn::Plain, |(_, sdn)| sdn.clone());
        Ok(())
    }
}

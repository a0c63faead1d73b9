//! The map of Geneve options to fields, and whether a match or a list keeps to it.

use crate::refusal::Refusal;
use contract::tunnel::{OPTION_LEN_MAX, OPTIONS, OPTIONS_LEN, OptionMap};
use openflow::{Action, FieldId, Match, TlvMapping, TlvTableCommand, TlvTableMod};
use std::fmt;
use std::sync::Arc;

/// Takes the map each time that it changes. It must not wait.
pub type OptionsFollower = Box<dyn Fn(&Arc<OptionMap>) + Send>;

/// What there is for tunnel ports.
#[derive(Default)]
pub(crate) struct Tunnels {
    /// There is a tunnel port, or was one.
    ports: bool,
    pub(super) map: Arc<OptionMap>,
    /// Numbers of maps that there were.
    pub(super) numbers: u16,
    pub(super) follower: Option<OptionsFollower>,
}

impl fmt::Debug for Tunnels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tunnels").field("ports", &self.ports).field("map", &self.map).finish()
    }
}

impl Tunnels {
    /// A tunnel port is there.
    pub(crate) fn see_port(&mut self) {
        self.ports = true;
    }

    /// What the program is to have for them.
    pub(crate) fn wanted(&self) -> Option<Arc<OptionMap>> {
        (self.ports || !self.map.is_empty()).then(|| self.map.clone())
    }

    /// The octets of a field's option.
    fn len(&self, field: FieldId, index: u8) -> Result<u8, Refusal> {
        let option = self.map.by_index(index).ok_or(Refusal::NoOption { field })?;
        Ok(option.len)
    }

    pub(super) fn check_match(&self, matching: &mut Match) -> Result<(), Refusal> {
        let fields: Vec<_> =
            matching.iter().filter_map(|f| Some((*f, f.id.tun_metadata()?))).collect();
        for (field, index) in fields {
            let len = self.len(field.id, index)?;
            let all = u128::MAX >> (128 - 8 * u32::from(len));
            if field.value & !all != 0 {
                return Err(Refusal::OptionValue { field: field.id, value: field.value, len });
            }
            matching.set_masked(field.id, field.value, field.mask & all);
        }
        Ok(())
    }

    pub(super) fn check_actions(&self, list: &[Action]) -> Result<(), Refusal> {
        Action::flat(list).try_for_each(|action| {
            let mut found = Ok(());
            action.fields(&mut |_, field| {
                if let (Some(index), Ok(())) = (field.tun_metadata(), &found) {
                    found = self.len(field, index).map(drop);
                }
            });
            found
        })
    }

    /// The map as a request makes it.
    pub(crate) fn changed(
        &self,
        request: &TlvTableMod,
        used: impl FnOnce(&[u8]) -> Option<FieldId>,
    ) -> Result<OptionMap, Refusal> {
        let mut options: Vec<(u8, u16, u8, u8)> =
            self.map.options().iter().map(|o| (o.index, o.class, o.kind, o.len)).collect();
        let gone = match request.command {
            TlvTableCommand::Add => {
                for mapping in &request.mappings {
                    add(&mut options, mapping)?;
                }
                Vec::new()
            }
            TlvTableCommand::Delete => {
                let named = |index: &u8| {
                    request.mappings.iter().any(|mapping| mapping.index == u16::from(*index))
                };
                options.extract_if(.., |(index, ..)| named(index)).map(|o| o.0).collect()
            }
            TlvTableCommand::Clear => options.drain(..).map(|option| option.0).collect(),
        };
        if !gone.is_empty()
            && let Some(field) = used(&gone)
        {
            return Err(Refusal::OptionUsed { field });
        }
        // 0 is the empty map's; of the others none is like the one before.
        let number = if options.is_empty() { 0 } else { self.numbers.wrapping_add(1).max(1) };
        let map = OptionMap::new(number, &options);
        map.ok_or(Refusal::OptionSpace { max: OPTIONS_LEN })
    }
}

/// A mapping joins the others.
fn add(options: &mut Vec<(u8, u16, u8, u8)>, mapping: &TlvMapping) -> Result<(), Refusal> {
    let &TlvMapping { class, kind, len, index } = mapping;
    if usize::from(index) >= OPTIONS {
        return Err(Refusal::OptionIndex { index });
    }
    if len == 0 || !len.is_multiple_of(4) || len > OPTION_LEN_MAX {
        return Err(Refusal::OptionLength { len, max: OPTION_LEN_MAX });
    }
    if options.iter().any(|option| u16::from(option.0) == index) {
        return Err(Refusal::OptionMapped { index });
    }
    if options.iter().any(|option| (option.1, option.2) == (class, kind)) {
        return Err(Refusal::OptionTwice { class, kind });
    }
    options.push((index as u8, class, kind, len));
    Ok(())
}

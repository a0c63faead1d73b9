//! The switch's configuration: fragments and `miss_send_len` (1.3.5 §7.3.2), and what becomes of
//! packets that match no entry of the first table.
//!
//! Misses: 1.3 drops what no entry matches, a table-miss entry included; 1.0 sends it to the
//! controller. One table serves both, so a pure miss is punted while a 1.0 controller is connected
//! ([`Agent::set_miss_to_controller`]), and told to 1.0 controllers alone
//! ([`Event::is_for`](crate::Event::is_for)). While no controller is there and the switch is to stand
//! on its own ([`Agent::set_standalone`]), misses are switched as by NORMAL instead. Both are the
//! first table's default action, below every entry: tables, counters and statistics of entries do not
//! show it, and entries stay as they are.

use crate::agent::Agent;
use crate::refusal::Refusal;
use crate::transaction::Transaction;
use ir::{ActionCall, Bits, TableId, Update};
use of_lower::{Call, Context, lower_instructions, no_elements};
use openflow::{Action, FragmentHandling, Instruction, PortNo, SwitchConfig};

/// What becomes of packets that match no entry of the first table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Miss {
    to_controller: bool,
    standalone: bool,
    /// The action of NORMAL, while it is in use.
    normal: Option<ir::ActionId>,
}

impl Agent {
    /// Executes a set-config.
    pub(crate) fn set_config(&mut self, request: SwitchConfig) -> Result<(), Refusal> {
        //= openflow-1.3.5 §7.3.2: OFPC_FRAG_NORMAL, OFPC_FRAG_DROP; reassembly is optional.
        let handling = request.fragments;
        if handling == FragmentHandling::Reassemble {
            return Err(Refusal::Fragments);
        }
        let drop = self.layout.fragment_policy(handling == FragmentHandling::Drop);
        let shown = self.layout.shown_policy(handling == FragmentHandling::NxMatch);
        if request.fragments != self.settings.fragments {
            let mut tx = Transaction::new(&self.switch, &mut self.interner);
            tx.push(Update::SetValueSet(self.layout.drop_fragments, drop));
            tx.push(Update::SetValueSet(self.layout.shown_fragments, shown));
            tx.commit()?.retire(&self.switch);
        }
        self.settings = request;
        Ok(())
    }

    /// Packets that no entry of the first table matches are sent to 1.0's controllers (true), or
    /// dropped (false, as 1.3 has it). To be on while a 1.0 controller is connected.
    pub fn set_miss_to_controller(&mut self, on: bool) {
        if self.miss.to_controller != on {
            self.set_miss(Miss { to_controller: on, ..self.miss });
        }
    }

    /// Packets that no entry of the first table matches are switched as by a learning bridge (true):
    /// for when controllers are gone and the switch is to stand on its own (1.3.5 §6.3.2). Goes
    /// before [`set_miss_to_controller`](Self::set_miss_to_controller).
    pub fn set_standalone(&mut self, on: bool) {
        if self.miss.standalone != on {
            self.set_miss(Miss { standalone: on, ..self.miss });
        }
    }

    fn set_miss(&mut self, mut to: Miss) {
        if let Err(refusal) = self.try_set_miss(&mut to) {
            tracing::error!(%refusal, "misses are treated as before");
            return;
        }
        self.miss = to;
    }

    fn try_set_miss(&mut self, to: &mut Miss) -> Result<(), Refusal> {
        let mut tx = Transaction::new(&self.switch, &mut self.interner);
        if let Some(action) = to.normal.take() {
            tx.release(action);
        }
        let call = if to.standalone {
            let normal = Action::output(PortNo::NORMAL);
            let instructions = [Instruction::ApplyActions(vec![normal])];
            let call: Call =
                lower_instructions(&self.layout, &no_elements, 0, Context::Entry, &instructions)?;
            let call = tx.intern(call);
            to.normal = Some(call.action);
            call
        } else if to.to_controller {
            let max_len = Bits::from_u128(Action::NO_BUFFER.into(), 16);
            ActionCall::with(self.layout.miss_to_controller, [max_len])
        } else {
            ActionCall::new(self.layout.miss)
        };
        tx.push(Update::SetDefault(TableId(0), call));
        tx.commit()?.retire(&self.switch);
        Ok(())
    }
}

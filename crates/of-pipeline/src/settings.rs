//! The switch's configuration: fragments and `miss_send_len` (1.3.5 §7.3.2), and what becomes of
//! packets that match no entry of the first table.
//!
//! Misses: 1.3 drops what no entry matches, a table-miss entry included; 1.0 sends it to the
//! controller. One table serves both, so a pure miss is punted while a 1.0 controller is connected
//! ([`Agent::set_miss_to_controller`](crate::Agent::set_miss_to_controller)), and told to 1.0 controllers alone
//! ([`Event::is_for`](crate::Event::is_for)). While no controller is there and the switch is to stand
//! on its own ([`Agent::set_standalone`](crate::Agent::set_standalone)), misses are switched as by NORMAL instead. Both are the
//! first table's default action, below every entry: tables, counters and statistics of entries do not
//! show it, and entries stay as they are.

use crate::env::Env;
use crate::refusal::Refusal;
use crate::stage::{Batch, Stage};
use ir::{ActionCall, Bits, TableId, Update};
use of_lower::{Call, Context, lower_instructions, no_elements};
use openflow::{Action, FragmentHandling, Instruction, PortNo, SwitchConfig};

/// What becomes of packets that match no entry of the first table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Miss {
    to_controller: bool,
    standalone: bool,
    /// The action of NORMAL, while it is in use.
    normal: Option<ir::ActionId>,
}

/// The switch's configuration.
#[derive(Debug)]
pub(crate) struct Settings {
    config: SwitchConfig,
    miss: Miss,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { config: SwitchConfig::DEFAULT, miss: Miss::default() }
    }
}

impl Settings {
    /// What controllers set.
    pub(crate) fn config(&self) -> SwitchConfig {
        self.config
    }

    /// Executes a set-config.
    pub(crate) fn set(
        &mut self,
        env: &Env,
        stage: &mut Stage,
        request: SwitchConfig,
    ) -> Result<(), Refusal> {
        //= openflow-1.3.5 §7.3.2: OFPC_FRAG_NORMAL, OFPC_FRAG_DROP; reassembly is optional.
        let handling = request.fragments;
        if handling == FragmentHandling::Reassemble {
            return Err(Refusal::Fragments);
        }
        let layout = &env.layout;
        let drop = layout.fragment_policy(handling == FragmentHandling::Drop);
        let shown = layout.shown_policy(handling == FragmentHandling::NxMatch);
        if request.fragments != self.config.fragments {
            let mut batch = Batch::new(&env.switch, stage);
            batch.push(Update::SetValueSet(layout.drop_fragments, drop));
            batch.push(Update::SetValueSet(layout.shown_fragments, shown));
            batch.commit()?.retire(&env.switch);
        }
        self.config = request;
        Ok(())
    }

    /// Packets that no entry of the first table matches are sent to 1.0's controllers, or not.
    pub(crate) fn set_miss_to_controller(&mut self, env: &Env, stage: &mut Stage, on: bool) {
        if self.miss.to_controller != on {
            self.set_miss(env, stage, Miss { to_controller: on, ..self.miss });
        }
    }

    /// Packets that no entry of the first table matches are switched as by a learning bridge, or not.
    pub(crate) fn set_standalone(&mut self, env: &Env, stage: &mut Stage, on: bool) {
        if self.miss.standalone != on {
            self.set_miss(env, stage, Miss { standalone: on, ..self.miss });
        }
    }

    fn set_miss(&mut self, env: &Env, stage: &mut Stage, mut to: Miss) {
        if let Err(refusal) = try_set_miss(env, stage, &mut to) {
            tracing::error!(%refusal, "misses are treated as before");
            return;
        }
        self.miss = to;
    }
}

fn try_set_miss(env: &Env, stage: &mut Stage, to: &mut Miss) -> Result<(), Refusal> {
    let layout = &env.layout;
    let mut batch = Batch::new(&env.switch, stage);
    if let Some(action) = to.normal.take() {
        batch.release(action);
    }
    let call = if to.standalone {
        let normal = Action::output(PortNo::NORMAL);
        let instructions = [Instruction::ApplyActions(vec![normal])];
        let call: Call =
            lower_instructions(layout, &no_elements, 0, Context::Entry, &instructions)?;
        let call = batch.intern(call);
        to.normal = Some(call.action);
        call
    } else if to.to_controller {
        let max_len = Bits::from_u128(Action::NO_BUFFER.into(), 16);
        ActionCall::with(layout.miss_to_controller, [max_len])
    } else {
        ActionCall::new(layout.miss)
    };
    batch.push(Update::SetDefault(TableId(0), call));
    batch.commit()?.retire(&env.switch);
    Ok(())
}

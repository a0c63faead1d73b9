//! Instruction lists, action lists and buckets as calls: a shape and its arguments.

use super::action_set::{as_bucket, is_partial, merge, set_key};
use super::intern::Interner;
use super::layout::LEARN_VALUES;
use super::layout::Layout;
use super::places::places;
use super::slots::{Kind, has_slot};
use super::step::{self, CtStep, Shape, Step};
use crate::rest::Rest;
use contract::ct::{flags, kind};
use ir::{ActionCall, Bits, PuntReason};
use openflow::{
    Action, Conntrack, CopyField, ElementName, FieldId, HashAlgorithm, Instruction, Learn,
    LearnTarget, Match, MeterId, Nat, NatSide, PacketInReason, PortNo, Prerequisite, SetField,
    Softflow, TableId, ToController, Zone,
};
use smallvec::SmallVec;
use std::net::IpAddr;
use std::sync::Arc;

/// What an entry or bucket does: steps, and values for their parameters in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// What is done.
    pub shape: Shape,
    /// One value for each parameter.
    pub args: SmallVec<[Bits; 2]>,
    /// The `learn`s that [`Step::Learn`] and [`Step::LearnTold`] name by their places here until the call is interned.
    pub learns: Vec<Arc<Learn>>,
    /// Which arguments are the entry's own id.
    pub own: SmallVec<[usize; 1]>,
}

impl Call {
    /// The call as an entry holds it; the interner counts one more user of the shape.
    pub fn intern(self, interner: &mut Interner) -> ActionCall {
        let mut shape = self.shape;
        for step in &mut shape {
            if let Step::Learn(at, _) | Step::LearnTold(at, _) = step
                && let Some(learn) = self.learns.get(*at as usize)
            {
                *at = interner.learn(learn);
            }
        }
        ActionCall { action: interner.acquire(&shape), args: self.args }
    }

    /// The same for a packet that the controller injects; the `learn`s that are held for it.
    pub fn hold(&mut self, mut number: impl FnMut(&Arc<Learn>) -> u32) -> Vec<u32> {
        let mut held = Vec::new();
        for step in &mut self.shape {
            if let Step::Learn(at, _) | Step::LearnTold(at, _) = step
                && let Some(learn) = self.learns.get(*at as usize)
            {
                *at = number(learn);
                held.push(*at);
            }
        }
        held
    }

    /// The same for an entry of a conjunctive flow's own.
    #[must_use]
    pub fn of_conjunctive(mut self) -> Call {
        self.shape.insert(0, Step::Found);
        self
    }

    /// The action itself and its arguments, for a packet that the controller injects.
    pub fn build(&self, layout: &Layout) -> (ir::Action, &[Bits]) {
        (step::build(&self.shape, layout), &self.args)
    }

    fn arg(&mut self, value: impl Into<u128>, width: u32) {
        self.args.push(Bits::from_u128(value.into(), width));
    }

    fn step(&mut self, step: Step) {
        self.shape.push(step);
    }

    fn with(&mut self, step: Step, value: impl Into<u128>, width: u32) {
        self.step(step);
        self.arg(value, width);
    }
}

/// Which services there are: whether the one of a name may write packets; none if there is none.
pub type Elements<'a> = &'a dyn Fn(&ElementName) -> Option<bool>;

/// No services.
pub fn no_elements(_: &ElementName) -> Option<bool> {
    None
}

/// What a list belongs to: decides the reason of its packet-ins, and what else is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// An entry's apply-actions.
    Entry,
    /// Those of a table-miss entry (priority 0, no match; 1.3.5 §5.4).
    TableMiss,
    /// A group's bucket.
    Bucket,
    /// A packet-out.
    PacketOut,
}

impl Context {
    fn reason(self) -> PuntReason {
        match self {
            Context::Entry => PuntReason::Action,
            Context::TableMiss => PuntReason::TableMiss,
            Context::Bucket => PuntReason::Group,
            Context::PacketOut => PuntReason::PacketOut,
        }
    }
}

/// What the program has no words for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LowerError {
    /// An experimenter's action or instruction.
    #[error("experimenter {0:#010x} defines no action or instruction that this switch knows")]
    Experimenter(u32),
    /// A port that is not one for this list.
    #[error(
        "port {0} is no destination here; ports, LOCAL, IN_PORT, ALL, FLOOD, NORMAL and CONTROLLER are, and TABLE in a packet-out"
    )]
    Port(PortNo),
    /// A goto to a table that does not exist, or back.
    #[error("goto table {to} from table {from}: the target must be a later table below {tables}")]
    Goto {
        /// The table of the entry.
        from: u8,
        /// The target.
        to: u8,
        /// How many tables there are.
        tables: u32,
    },
    /// The field cannot be written.
    #[error("field {0} is read only")]
    ReadOnly(FieldId),
    /// A resubmit to no table.
    #[error(
        "resubmit leads to a table below {0}; in a group's bucket, which belongs to no table, it names one: resubmit(,TABLE)"
    )]
    Resubmit(u32),
    /// More values of the packet than one digest tells.
    #[error("a learn takes at most {max} values of the packet; this one takes {count}")]
    LearnValues {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// A `ct` that goes on in no table.
    #[error("ct goes on in a table below {0}")]
    CtTable(u32),
    /// A service that is not there.
    #[error("there is no service {0}; add it first: millrace service add {0} KIND")]
    NoService(ElementName),
    /// A `softflow` with something behind it, or in a list that goes on.
    #[error(
        "softflow takes the packet away: it is the last action that a flow entry applies, with no instruction behind it, or a packet-out's last"
    )]
    SoftflowGoesOn,
    /// A `fin_timeout` where no entry is.
    #[error(
        "fin_timeout shortens the timeouts of its flow entry; packet-outs and groups' buckets have none"
    )]
    FinTimeout,
    /// An action, or an option of one, that no packet can be processed by.
    #[error("{0} is read and written, but not done by this switch; leave it out")]
    NotDone(&'static str),
    /// An action that an action set cannot hold.
    #[error("{0} cannot be in an action set; apply it at once instead")]
    NotInSet(&'static str),
}

/// An entry's instructions, in the order of execution whatever that of the message (1.3.5 §5.9):
/// meter, apply, clear, write actions, write metadata, goto. `table` is the entry's own.
pub fn lower_instructions(
    layout: &Layout,
    elements: Elements<'_>,
    table: u8,
    context: Context,
    instructions: &[Instruction],
) -> Result<Call, LowerError> {
    let mut call = Call::default();
    let place = Place { context, table: Some(table), tables: layout.tables };
    list(&mut call, layout, elements, place, instructions, true)?;
    Ok(call)
}

/// The same behind what there is. `tail`: nothing is done behind it. Whether the packet's way ends there.
fn list(
    call: &mut Call,
    layout: &Layout,
    elements: Elements<'_>,
    place: Place,
    instructions: &[Instruction],
    tail: bool,
) -> Result<bool, LowerError> {
    let table = place.table.unwrap_or(0);
    let goto = instructions.iter().any(|i| matches!(i, Instruction::GotoTable(_)));
    // Nothing is done behind the applied actions.
    let apply_last = tail
        && instructions.iter().all(|i| {
            matches!(
                i,
                Instruction::Meter(_) | Instruction::ApplyActions(_) | Instruction::StatTrigger(_)
            )
        });
    let mut in_order: SmallVec<[&Instruction; 4]> = instructions.iter().collect();
    in_order.sort_by_key(|i| match i {
        Instruction::Meter(_) | Instruction::StatTrigger(_) => 0,
        Instruction::ApplyActions(_) => 1,
        Instruction::ClearActions => 2,
        Instruction::WriteActions(_) => 3,
        Instruction::WriteMetadata { .. } => 4,
        Instruction::GotoTable(_) => 5,
        Instruction::Experimenter(_) => 6,
    });
    for instruction in in_order {
        match instruction {
            Instruction::Meter(id) => call.with(Step::Meter, id.0, 32),
            // The agent watches the entry's counters.
            Instruction::StatTrigger(_) => {}
            Instruction::ApplyActions(actions) => {
                for (i, action) in actions.iter().enumerate() {
                    // Nothing behind it is done before the controller resumes the packet.
                    if pauses(action) {
                        lower_action(call, place, action)?;
                        call.step(Step::Pause);
                        return Ok(true);
                    }
                    // No instruction behind it is done.
                    if matches!(action, Action::Exit) {
                        call.step(Step::Exit);
                        return Ok(true);
                    }
                    let last = i + 1 == actions.len();
                    let normal = matches!(action, Action::Output { port: PortNo::NORMAL, .. });
                    // Where nothing follows and the table comes later, it need not come back.
                    if let Action::Resubmit { in_port: PortNo::IN_PORT, table: to, ct: false } =
                        action
                        && last
                        && apply_last
                        && to.0 > table
                        && layout.table_block(to.0).is_some()
                    {
                        call.step(Step::Goto(to.0));
                        return Ok(true);
                    } else if last && normal && !goto && tail {
                        call.step(Step::NormalTail);
                    } else if let Action::Ct(ct) = action
                        && let Some(to) = ct.table
                        && last
                        && apply_last
                    {
                        conntrack(call, place, ct, Some(to.0 > table))?;
                    } else if let Action::Softflow(softflow) = action
                        && last
                        && apply_last
                    {
                        hand_over(call, elements, softflow)?;
                    } else {
                        lower_action(call, place, action)?;
                    }
                }
            }
            Instruction::ClearActions => call.step(Step::Clear),
            Instruction::WriteActions(actions) => write_actions(call, actions)?,
            Instruction::WriteMetadata { value, mask } => match *mask {
                0 => {}
                u64::MAX => call.with(Step::Metadata, *value, 64),
                mask => {
                    call.with(Step::MetadataMasked, value & mask, 64);
                    call.arg(mask, 64);
                }
            },
            Instruction::GotoTable(to) => {
                if to.0 <= table || layout.table_block(to.0).is_none() {
                    return Err(LowerError::Goto { from: table, to: to.0, tables: layout.tables });
                }
                // What is done behind it is done when it comes back.
                call.step(if tail { Step::Goto(to.0) } else { Step::Resubmit(to.0) });
            }
            Instruction::Experimenter(e) => return Err(LowerError::Experimenter(e.experimenter)),
        }
    }
    let ends = match call.shape.last() {
        Some(Step::Goto(_) | Step::NormalTail | Step::Softflow { .. }) => true,
        Some(Step::Ct(ct)) => ct.last.is_some(),
        _ => false,
    };
    Ok(ends)
}

/// What leads packets of a table to the entries of a conjunctive flow.
pub fn lower_conjunctive(table: u8, id: u32) -> Call {
    let mut call = Call::default();
    call.with(Step::Conjunctive(table), id, 32);
    call
}

/// A list of actions, done in its order.
pub fn lower_actions(context: Context, actions: &[Action]) -> Result<Call, LowerError> {
    let mut call = Call::default();
    let place = Place { context, table: None, tables: 0 };
    actions.iter().try_for_each(|a| lower_action(&mut call, place, a))?;
    Ok(call)
}

/// A packet-out's actions, done in their order, once the packet has its pipeline fields (1.5.1
/// §7.3.6). Its own table is the first one. `number` is that of the packet, if its list is kept.
pub fn lower_packet_out(
    layout: &Layout,
    elements: Elements<'_>,
    number: Option<u32>,
    pipeline: &Match,
    actions: &[Action],
) -> Result<Call, LowerError> {
    let mut call = Call::default();
    if let Some(number) = number {
        call.with(Step::Injected, number, 32);
    }
    for field in pipeline {
        match field.id {
            FieldId::Metadata => call.with(Step::Metadata, field.value, 64),
            // Every packet has this one.
            FieldId::PacketType => {}
            id => call.with(Step::SetField(id), field.value, settable(id)?),
        }
    }
    let place = Place { context: Context::PacketOut, table: Some(0), tables: layout.tables };
    let actions = until_exit(actions);
    if let Some((Action::Softflow(softflow), rest)) = actions.split_last() {
        rest.iter().try_for_each(|a| lower_action(&mut call, place, a))?;
        hand_over(&mut call, elements, softflow)?;
        return Ok(call);
    }
    let (actions, pause) = until_pause(actions);
    actions.iter().try_for_each(|a| lower_action(&mut call, place, a))?;
    if pause {
        call.step(Step::Pause);
    } else if actions.iter().any(|a| matches!(a, Action::Resubmit { .. })) {
        // What tables wrote is done in the end.
        call.step(Step::ActionSet);
    }
    Ok(call)
}

/// A bucket's actions, in the order in which [`as_bucket`] has them done.
pub fn lower_bucket(layout: &Layout, actions: &[Action]) -> Result<Call, LowerError> {
    let mut call = Call::default();
    if actions.is_empty() {
        call.step(Step::BucketDrop);
        return Ok(call);
    }
    let place = Place { context: Context::Bucket, table: None, tables: layout.tables };
    let actions = as_bucket(until_exit(actions));
    // A packet that waits is the bucket's copy, which ends there.
    let pause = actions.iter().position(|action| pauses(action));
    let actions = &actions[..pause.map_or(actions.len(), |at| at + 1)];
    if actions.iter().any(|a| set_key(a).is_none() || is_partial(a)) {
        call.step(Step::Bucket);
    }
    actions.iter().try_for_each(|a| lower_action(&mut call, place, a))?;
    // What tables wrote is done in the end.
    if pause.is_none() && actions.iter().any(|a| matches!(a, Action::Resubmit { .. })) {
        call.step(Step::BucketEnd);
    }
    Ok(call)
}

/// The actions of a list that are done: those in front of an `exit`.
pub fn until_exit(actions: &[Action]) -> &[Action] {
    let end = actions.iter().position(|a| matches!(a, Action::Exit));
    &actions[..end.unwrap_or(actions.len())]
}

/// Whether the packet waits at the action.
fn pauses(action: &Action) -> bool {
    matches!(action, Action::Controller(ToController { pause: true, .. }))
}

/// What the action tells is found by its entry: bytes for the controller, or what comes behind it.
pub fn needs_entry(to: &ToController) -> bool {
    !to.userdata.is_empty() || to.pause
}

/// Those that are done before the packet waits, the one at which it does included, and whether there is one.
fn until_pause(actions: &[Action]) -> (&[Action], bool) {
    match actions.iter().position(pauses) {
        Some(at) => (&actions[..=at], true),
        None => (actions, false),
    }
}

/// What is done with a packet that waited. What is known of it comes back, then what its lists have left is done.
pub fn lower_resumed(
    layout: &Layout,
    elements: Elements<'_>,
    number: u32,
    rest: &Rest,
) -> Result<Call, LowerError> {
    let mut call = Call::default();
    call.with(Step::Injected, number, 32);
    for field in rest.pipeline.iter().filter(|field| field.id != FieldId::InPort) {
        call.with(Step::SetField(field.id), field.value, field.id.info().bits);
    }
    for value in rest.waits.stack.iter().rev() {
        call.with(Step::StackValue, *value, 128);
    }
    let place =
        |table| Place { context: Context::PacketOut, table: Some(table), tables: layout.tables };
    if rest.left.cloned {
        call.step(Step::Clone);
        'parts: for part in &rest.left.parts {
            for actions in part.instructions.iter().filter_map(applied) {
                let done = until_exit(actions);
                let (before, pause) = until_pause(done);
                before.iter().try_for_each(|a| lower_action(&mut call, place(part.table), a))?;
                if pause || done.len() < actions.len() {
                    break 'parts;
                }
            }
            // Tables that the clone was led to have more than applied actions.
            let others = part.instructions.iter().filter(|i| applied(i).is_none());
            let others: Vec<Instruction> = others.cloned().collect();
            list(&mut call, layout, elements, place(part.table), &others, false)?;
        }
        call.step(Step::CloneEnd);
        return Ok(call);
    }
    write_actions(&mut call, &rest.waits.action_set)?;
    for (at, part) in rest.left.parts.iter().enumerate() {
        let tail = at + 1 == rest.left.parts.len();
        if list(&mut call, layout, elements, place(part.table), &part.instructions, tail)? {
            return Ok(call);
        }
    }
    // What is in the set is done in the end.
    call.step(Step::ActionSet);
    Ok(call)
}

/// The actions of an instruction that applies some.
fn applied(instruction: &Instruction) -> Option<&[Action]> {
    match instruction {
        Instruction::ApplyActions(actions) => Some(actions),
        _ => None,
    }
}

/// Where an action stands.
#[derive(Clone, Copy)]
struct Place {
    context: Context,
    /// The table that a resubmit without one means.
    table: Option<u8>,
    /// How many tables there are.
    tables: u32,
}

fn lower_action(call: &mut Call, place: Place, action: &Action) -> Result<(), LowerError> {
    let context = place.context;
    match action {
        Action::Output { port, max_len } => output(call, context, *port, *max_len)?,
        Action::CopyTtlOut => call.step(Step::CopyTtlOut),
        Action::CopyTtlIn => call.step(Step::CopyTtlIn),
        Action::SetMplsTtl(ttl) => call.with(Step::SetMplsTtl, *ttl, 8),
        Action::DecMplsTtl => call.step(Step::DecMplsTtl),
        Action::PushVlan(t) => call.step(Step::PushVlan(*t)),
        Action::PopVlan => call.step(Step::PopVlan),
        Action::PushMpls(t) => call.step(Step::PushMpls(*t)),
        Action::PopMpls(t) => call.step(Step::PopMpls(*t)),
        Action::SetQueue(queue) => call.with(Step::SetQueue, queue.0, 32),
        Action::Group(group) => call.with(Step::Group, group.0, 32),
        Action::SetNwTtl(ttl) => call.with(Step::SetNwTtl, *ttl, 8),
        Action::DecNwTtl => call.step(Step::DecNwTtl),
        Action::SetField(SetField { field, value, mask }) => {
            let width = settable(*field)?;
            match mask.filter(|m| m & field.all_bits() != field.all_bits()) {
                None => call.with(Step::SetField(*field), *value, width),
                Some(mask) => {
                    call.with(Step::SetFieldMasked(*field), value & mask, width);
                    call.arg(mask, width);
                }
            }
        }
        Action::PushPbb(t) => call.step(Step::PushPbb(*t)),
        Action::PopPbb => call.step(Step::PopPbb),
        Action::SetVlanVid(vid) => {
            call.step(Step::EnsureVlan);
            call.with(Step::SetField(FieldId::VlanVid), *vid, 13);
        }
        Action::SetVlanPcp(pcp) => {
            call.step(Step::EnsureVlan);
            call.with(Step::SetField(FieldId::VlanPcp), *pcp, 3);
        }
        Action::SetNwSrc(address) => call.with(Step::SetNwSrc, *address, 32),
        Action::SetNwDst(address) => call.with(Step::SetNwDst, *address, 32),
        Action::SetNwTos(tos) => call.with(Step::SetNwTos, tos >> 2, 6),
        Action::SetTpSrc(port) => call.with(Step::SetTpSrc, *port, 16),
        Action::SetTpDst(port) => call.with(Step::SetTpDst, *port, 16),
        // The queue is for this output alone.
        Action::Enqueue { port, queue } => {
            call.step(Step::KeepQueue);
            call.with(Step::SetQueue, queue.0, 32);
            output(call, context, *port, 0)?;
            call.step(Step::RestoreQueue);
        }
        Action::Meter(meter) => call.with(Step::Meter, meter.0, 32),
        Action::CopyField(CopyField { bits, from, to }) => {
            settable(to.field)?;
            call.step(Step::Copy(*bits, *from, *to));
        }
        // Entries of dimensions do nothing themselves.
        Action::Note(_) | Action::Conjunction(_) => {}
        Action::Controller(to @ ToController { max_len, reason, id, meter, .. })
            if needs_entry(to) =>
        {
            // The bytes, and what is left to do, are found by the list, and by which of its actions this is.
            let with =
                |step: &&Step| matches!(step, Step::ControllerWith(_) | Step::ControllerWaits(_));
            let which = 1 + call.shape.iter().filter(with).count() as u16;
            within(call, *meter);
            let reason = punt_reason(*reason);
            let step = match to.pause {
                true => Step::ControllerWaits(reason),
                false => Step::ControllerWith(reason),
            };
            call.with(step, *max_len, 16);
            call.arg(*id, 16);
            call.arg(which, 16);
        }
        Action::Controller(ToController { max_len, reason, id, meter, .. }) => {
            within(call, *meter);
            call.with(Step::ControllerOf(punt_reason(*reason)), *max_len, 16);
            call.arg(*id, 16);
        }
        Action::DecNwTtlTo(ids) => {
            call.step(Step::DecNwTtlTo(ids.len() as u16));
            ids.iter().for_each(|id| call.arg(*id, 16));
        }
        Action::OutputField { from, max_len } => {
            call.with(Step::OutputField(*from), *max_len, 16);
        }
        Action::StackPush(bits) => call.step(Step::StackPush(*bits)),
        Action::StackPop(bits) => {
            settable(bits.of.field)?;
            call.step(Step::StackPop(*bits));
        }
        Action::CheckPktLarger { bytes, to } => {
            settable(to.field)?;
            call.with(Step::CheckPktLarger(*to), *bytes, 32);
        }
        Action::DeleteField(field) => call.step(Step::DeleteField(*field)),
        Action::Multipath(m) => {
            settable(m.to.of.field)?;
            let links = u32::from(m.max_link) + 1;
            let algorithm = match m.algorithm {
                HashAlgorithm::Weight if links <= HashAlgorithm::WEIGHTS_MAX.into() => {
                    call.with(Step::MultipathWeight(m.fields, links as u8, m.to), m.basis, 16);
                    return Ok(());
                }
                HashAlgorithm::Iterated => {
                    call.with(Step::MultipathDrawn(m.fields, m.to), m.basis, 16);
                    call.arg(links, 32);
                    // At least every other number that is drawn is a link's.
                    let good = m.arg >= links && m.arg / 2 <= links;
                    call.arg(if good { m.arg } else { links.next_power_of_two() }, 32);
                    return Ok(());
                }
                HashAlgorithm::Weight => HashAlgorithm::Modulo,
                other => other,
            };
            call.with(Step::Multipath(m.fields, algorithm, m.to), m.basis, 16);
            call.arg(links, 32);
            if algorithm == HashAlgorithm::Modulo {
                // 2^64 / links, rounded up: of one link it wraps to 0, and so does every remainder.
                call.arg((u64::MAX / u64::from(links)).wrapping_add(1), 64);
            }
        }
        Action::Learn(learn) => {
            for spec in &learn.specs {
                if let LearnTarget::Load(to) = spec.to {
                    settable(to.field)?;
                }
            }
            let (about, rest) = learn.values();
            let count = about.len() + rest.len();
            for value in about.iter().chain(&rest) {
                call.step(Step::LearnFrom(*value));
            }
            if count > LEARN_VALUES {
                return Err(LowerError::LearnValues { count, max: LEARN_VALUES });
            }
            let which = call.learns.len() as u32;
            call.step(match learn.result_dst {
                None => Step::Learn(which, about.len() as u8),
                Some(to) => {
                    settable(to.field)?;
                    Step::LearnTold(which, to)
                }
            });
            call.learns.push(Arc::new((**learn).clone()));
        }
        Action::Bundle(m) => {
            if let Some(to) = m.to {
                settable(to.of.field)?;
            }
            let count = m.members.len() as u16;
            call.with(Step::Bundle(m.fields, m.algorithm, count, m.to), m.basis, 16);
            m.members.iter().for_each(|port| call.arg(port.0, 32));
        }
        Action::Ct(ct) => conntrack(call, place, ct, None)?,
        Action::CtClear => call.step(Step::CtClear),
        Action::Softflow(_) => return Err(LowerError::SoftflowGoesOn),
        // Lists are cut where it stands.
        Action::Exit => return Err(LowerError::NotInSet("exit")),
        Action::Clone(inner) => {
            call.step(Step::Clone);
            let (done, _) = until_pause(until_exit(inner));
            done.iter().try_for_each(|a| lower_action(call, place, a))?;
            call.step(Step::CloneEnd);
        }
        Action::PopQueue => call.with(Step::SetQueue, 0u32, 32),
        Action::OutputTruncated { port, max_len } => {
            match *port {
                PortNo::IN_PORT => call.step(Step::InPortTruncated),
                port => call.with(Step::OutputTruncated, port.0, 32),
            }
            call.arg(*max_len, 32);
        }
        // Its entry's id is not known here.
        Action::FinTimeout(_) => match place.table.filter(|_| context != Context::PacketOut) {
            None => return Err(LowerError::FinTimeout),
            Some(table) => {
                call.own.push(call.args.len());
                call.with(Step::FinTimeout(table), 0u32, 32);
            }
        },
        Action::Resubmit { in_port, table, ct } => {
            let own = *table == TableId::ALL;
            let to = if own { place.table } else { Some(table.0) };
            match to.filter(|to| u32::from(*to) < place.tables) {
                None => return Err(LowerError::Resubmit(place.tables)),
                Some(to) => match (*in_port, *ct) {
                    (PortNo::IN_PORT, false) => call.step(Step::Resubmit(to)),
                    (PortNo::IN_PORT, true) => call.step(Step::ResubmitCt(to)),
                    (port, false) => call.with(Step::ResubmitPort(to), port.0, 32),
                    (port, true) => call.with(Step::ResubmitCtPort(to), port.0, 32),
                },
            }
        }
        Action::Experimenter(e) => return Err(LowerError::Experimenter(e.experimenter)),
    }
    Ok(())
}

/// A `softflow`, as the last of a list.
fn hand_over(
    call: &mut Call,
    elements: Elements<'_>,
    softflow: &Softflow,
) -> Result<(), LowerError> {
    let name = &softflow.name;
    let edits = elements(name).ok_or_else(|| LowerError::NoService(name.clone()))?;
    let step = Step::Softflow { element: name.number(), edits };
    call.with(step, softflow.argument, 32);
    Ok(())
}

/// A `ct`: what it sets, then what it does. `last`: nothing follows it, and its table comes later.
fn conntrack(
    call: &mut Call,
    place: Place,
    ct: &Conntrack,
    last: Option<bool>,
) -> Result<(), LowerError> {
    if let Some(table) = ct.table
        && u32::from(table.0) >= place.tables
    {
        return Err(LowerError::CtTable(place.tables));
    }
    if !ct.exec.is_empty() {
        call.step(Step::CtExec);
    }
    for action in &ct.exec {
        match action {
            Action::SetField(SetField { field, value, mask }) if field.is_of_connection() => {
                let (all, width) = (field.all_bits(), field.info().bits);
                let mask = mask.unwrap_or(all) & all;
                call.with(Step::CtSet(*field), value & mask, width);
                call.arg(mask, width);
            }
            Action::CopyField(CopyField { bits, from, to }) if to.field.is_of_connection() => {
                call.step(Step::CtCopy(*bits, *from, *to));
            }
            _ => return Err(LowerError::NotInSet("what ct's exec holds")),
        }
    }
    let zone = match ct.zone {
        Zone::Field(bits) => Some(bits),
        Zone::Number(_) => None,
    };
    let alg = match ct.alg {
        0 => 0,
        21 => flags::FTP,
        69 => flags::TFTP,
        _ => return Err(LowerError::NotDone("ct(alg) other than ftp and tftp")),
    };
    let translates = |side| if side == NatSide::Source { kind::SOURCE } else { kind::DESTINATION };
    let given = |is: bool, bit: u8| if is { bit } else { 0 };
    let nat = match ct.nat {
        None => None,
        Some(Nat::Existing) => Some(kind::EXISTING),
        Some(Nat::Unranged { side, .. }) => Some(translates(side)),
        Some(Nat::New(range)) => {
            let ipv6 = if range.first.is_ipv6() { kind::IPV6 } else { 0 };
            Some(translates(range.side) | ipv6)
        }
    };
    call.step(Step::Ct(CtStep {
        flags: given(ct.commit, flags::COMMIT) | given(ct.force, flags::FORCE) | alg,
        zone,
        table: ct.table.map(|table| table.0),
        nat,
        exec: !ct.exec.is_empty(),
        last: last.filter(|_| ct.table.is_some()),
    }));
    if let Zone::Number(zone) = ct.zone {
        call.arg(zone, 16);
    }
    if let Some(Nat::New(range)) = ct.nat {
        let bits = |address| match address {
            IpAddr::V4(v4) => u128::from(u32::from(v4)),
            IpAddr::V6(v6) => u128::from(v6),
        };
        call.arg(bits(range.first), 128);
        call.arg(bits(range.last), 128);
        let (first, last) = range.ports.unwrap_or((0, 0));
        call.arg(first, 16);
        call.arg(last, 16);
    }
    if let Some(Nat::Unranged { .. }) = ct.nat {
        // The service leaves addresses alone that are all zeroes.
        [128, 128, 16, 16].into_iter().for_each(|width| call.arg(0_u16, width));
    }
    Ok(())
}

fn punt_reason(reason: PacketInReason) -> PuntReason {
    match reason {
        PacketInReason::NoMatch => PuntReason::TableMiss,
        PacketInReason::Action => PuntReason::Action,
        PacketInReason::InvalidTtl => PuntReason::InvalidTtl,
        PacketInReason::ActionSet => PuntReason::ActionSet,
        PacketInReason::Group => PuntReason::Group,
        PacketInReason::PacketOut => PuntReason::PacketOut,
    }
}

fn settable(field: FieldId) -> Result<u32, LowerError> {
    let info = field.info();
    if info.settable { Ok(info.bits) } else { Err(LowerError::ReadOnly(field)) }
}

/// The next step is done within a meter's rate, if any.
fn within(call: &mut Call, meter: Option<MeterId>) {
    if let Some(meter) = meter {
        call.with(Step::Within, meter.0, 32);
    }
}

fn output(call: &mut Call, context: Context, port: PortNo, max_len: u16) -> Result<(), LowerError> {
    match port {
        PortNo::IN_PORT => call.step(Step::InPort),
        PortNo::ALL => call.step(Step::All),
        PortNo::FLOOD => call.step(Step::Flood),
        PortNo::NORMAL if context == Context::Bucket => call.step(Step::BucketNormal),
        PortNo::NORMAL => call.step(Step::Normal),
        PortNo::TABLE if context == Context::PacketOut => call.step(Step::Table),
        PortNo::CONTROLLER => call.with(Step::Controller(context.reason()), max_len, 16),
        port if port.is_ordinary() || port == PortNo::LOCAL => {
            call.with(Step::Output, port.0, 32);
        }
        other => return Err(LowerError::Port(other)),
    }
    Ok(())
}

fn write_actions(call: &mut Call, actions: &[Action]) -> Result<(), LowerError> {
    let first = call.shape.len();
    let write = |call: &mut Call, kind: Kind| call.step(Step::Write(kind));
    for action in merge(actions) {
        match action {
            Action::Output { port, max_len } => {
                let reserved =
                    [PortNo::IN_PORT, PortNo::ALL, PortNo::FLOOD, PortNo::NORMAL, PortNo::LOCAL];
                let known =
                    port.is_ordinary() || *port == PortNo::CONTROLLER || reserved.contains(port);
                if !known {
                    return Err(LowerError::Port(*port));
                }
                write(call, Kind::Output);
                call.arg(port.0, 32);
                call.arg(*max_len, 16);
            }
            Action::CopyTtlOut => write(call, Kind::CopyTtlOut),
            Action::CopyTtlIn => write(call, Kind::CopyTtlIn),
            Action::SetMplsTtl(ttl) => {
                write(call, Kind::SetMplsTtl);
                call.arg(*ttl, 8);
            }
            Action::DecMplsTtl => write(call, Kind::DecMplsTtl),
            Action::PushVlan(t) => {
                write(call, Kind::PushVlan);
                call.arg(*t, 16);
            }
            Action::PopVlan => write(call, Kind::PopVlan),
            Action::PushMpls(t) => {
                write(call, Kind::PushMpls);
                call.arg(*t, 16);
            }
            Action::PopMpls(t) => {
                write(call, Kind::PopMpls);
                call.arg(*t, 16);
            }
            Action::SetQueue(queue) => {
                write(call, Kind::SetQueue);
                call.arg(queue.0, 32);
            }
            Action::Group(group) => {
                write(call, Kind::Group);
                call.arg(group.0, 32);
            }
            Action::SetNwTtl(ttl) => {
                write(call, Kind::SetNwTtl);
                call.arg(*ttl, 8);
            }
            Action::DecNwTtl => write(call, Kind::DecNwTtl),
            Action::SetField(SetField { field, value, mask }) => {
                let width = settable(*field)?;
                if mask.is_some_and(|m| m & field.all_bits() != field.all_bits()) {
                    return Err(LowerError::NotInSet("a set-field with a mask"));
                }
                if !has_slot(*field) {
                    return Err(LowerError::NotInSet(
                        "a set-field of a register, in_port, metadata or pkt_mark",
                    ));
                }
                call.with(Step::WriteField(*field), *value, width);
            }
            Action::PushPbb(t) => {
                write(call, Kind::PushPbb);
                call.arg(*t, 16);
            }
            Action::PopPbb => write(call, Kind::PopPbb),
            Action::Experimenter(e) => return Err(LowerError::Experimenter(e.experimenter)),
            other => return Err(LowerError::NotInSet(places(other).name)),
        }
    }
    let bits = call.shape[first..].iter().fold(0, |bits, step| bits | step::write_bit(step));
    if bits != 0 {
        call.step(Step::Mark(bits));
    }
    Ok(())
}

/// What a set-field needs in the entry's match (1.3.5 §5.12: the prerequisites of the field).
pub fn set_field_prerequisites(field: FieldId) -> &'static [Prerequisite] {
    field.info().prerequisites
}

//! Programs written in Rust: the way of a front end.
//!
//! A [`Builder`] collects declarations and hands out their ids. It checks nothing that
//! [`verify`](crate::verify) checks; names that clash or ids that dangle are refused there, all at
//! once and with their rule.

use crate::id::{
    ActionId, BlockId, DigestId, FieldId, HeaderId, HeaderTypeId, MetaId, ParserStateId,
    RegisterId, ServiceId, StackId, TableId, UnionId, ValueSetId,
};
use crate::op::Op;
use crate::program::{
    Action, Block, Checksum, CounterArray, Digest, Field, HeaderInstance, HeaderType, MetaField,
    Param, ParserState, Program, Register, Service, Stack, Table, Terminator, Transition, Union,
    ValueSet,
};
use std::sync::Arc;

/// A program in the making.
#[derive(Default)]
pub struct Builder {
    program: Program,
}

fn id(len: usize) -> u32 {
    len as u32
}

impl Builder {
    /// Nothing but intrinsic metadata.
    pub fn new() -> Builder {
        Builder::default()
    }

    /// A header type of fixed-width fields; a width of `None` makes the last one varbit (up to 320
    /// bits less than a byte count of 255 allows is the caller's choice: use
    /// [`header_type_fields`](Self::header_type_fields) for that).
    pub fn header_type(&mut self, name: &str, fields: &[(&str, u32)]) -> HeaderTypeId {
        let field = |(name, width): &(&str, u32)| Field {
            name: (*name).to_string(),
            width: *width,
            varbit: false,
        };
        self.header_type_fields(name, fields.iter().map(field).collect())
    }

    /// A header type of any fields.
    pub fn header_type_fields(&mut self, name: &str, fields: Vec<Field>) -> HeaderTypeId {
        self.program.header_types.push(HeaderType { name: name.to_string(), fields });
        HeaderTypeId(id(self.program.header_types.len() - 1))
    }

    /// A header instance.
    pub fn header(&mut self, name: &str, header_type: HeaderTypeId) -> HeaderId {
        let instance =
            HeaderInstance { name: name.to_string(), header_type, stack: None, union: None };
        self.program.headers.push(instance);
        HeaderId(id(self.program.headers.len() - 1))
    }

    /// A header stack and its elements.
    pub fn stack(&mut self, name: &str, header_type: HeaderTypeId, size: u32) -> StackId {
        let stack = StackId(id(self.program.stacks.len()));
        let first = HeaderId(id(self.program.headers.len()));
        for i in 0..size {
            let name = format!("{name}[{i}]");
            let instance =
                HeaderInstance { name, header_type, stack: Some((stack, i)), union: None };
            self.program.headers.push(instance);
        }
        self.program.stacks.push(Stack { name: name.to_string(), first, size });
        stack
    }

    /// The `i`-th element of a stack.
    pub fn element(&self, stack: StackId, i: u32) -> HeaderId {
        HeaderId(self.program.stacks[stack.index()].first.0 + i)
    }

    /// A header union of instances that exist already.
    pub fn union(&mut self, name: &str, members: &[HeaderId]) -> UnionId {
        let union = UnionId(id(self.program.unions.len()));
        for m in members {
            self.program.headers[m.index()].union = Some(union);
        }
        self.program.unions.push(Union { name: name.to_string(), members: members.to_vec() });
        union
    }

    /// A metadata field.
    pub fn meta(&mut self, name: &str, width: u32) -> MetaId {
        self.program.metadata.push(MetaField { name: name.to_string(), width });
        MetaId(id(self.program.metadata.len() - 1))
    }

    /// The field of a header instance with this name. Both exist.
    ///
    /// # Panics
    /// If the header's type has no such field: a mistake in the caller's code.
    pub fn field(&self, header: HeaderId, name: &str) -> FieldId {
        let ty = self.program.type_of(header);
        ty.field(name).unwrap_or_else(|| panic!("header type {} has no field {name}", ty.name))
    }

    /// A value set.
    pub fn value_set(&mut self, name: &str, width: u32, capacity: u32) -> ValueSetId {
        self.program.value_sets.push(ValueSet { name: name.to_string(), width, capacity });
        ValueSetId(id(self.program.value_sets.len() - 1))
    }

    /// Reserves a parser state, so that others can go to it; the first one is the start.
    pub fn state(&mut self, name: &str) -> ParserStateId {
        let state =
            ParserState { name: name.to_string(), ops: Vec::new(), next: Transition::Accept };
        self.program.parser.push(state);
        ParserStateId(id(self.program.parser.len() - 1))
    }

    /// Fills in a parser state.
    pub fn set_state(
        &mut self,
        state: ParserStateId,
        ops: Vec<crate::program::ParserOp>,
        next: Transition,
    ) {
        let s = &mut self.program.parser[state.index()];
        s.ops = ops;
        s.next = next;
    }

    /// Appends to the deparser.
    pub fn emit(&mut self, header: HeaderId) {
        self.program.deparser.push(header);
    }

    /// Appends all elements of a stack to the deparser.
    pub fn emit_stack(&mut self, stack: StackId) {
        let Stack { first, size, .. } = self.program.stacks[stack.index()];
        self.program.deparser.extend((first.0..first.0 + size).map(HeaderId));
    }

    /// A checksum field.
    pub fn checksum(&mut self, checksum: Checksum) {
        self.program.checksums.push(checksum);
    }

    /// An action.
    pub fn action(&mut self, name: &str, params: &[(&str, u32)], body: Vec<Op>) -> ActionId {
        let params =
            params.iter().map(|(n, w)| Param { name: (*n).to_string(), width: *w }).collect();
        self.program.actions.push(Arc::new(Action { name: name.to_string(), params, body }));
        ActionId(id(self.program.actions.len() - 1))
    }

    /// A table.
    pub fn table(&mut self, table: Table) -> TableId {
        self.program.tables.push(table);
        TableId(id(self.program.tables.len() - 1))
    }

    /// Reserves a block, so that earlier ones can go to it; control starts at the first one.
    pub fn block(&mut self, name: &str) -> BlockId {
        let block = Block { name: name.to_string(), ops: Vec::new(), end: Terminator::Exit };
        self.program.blocks.push(block);
        BlockId(id(self.program.blocks.len() - 1))
    }

    /// Fills in a block.
    pub fn set_block(&mut self, block: BlockId, ops: Vec<Op>, end: Terminator) {
        let b = &mut self.program.blocks[block.index()];
        b.ops = ops;
        b.end = end;
    }

    /// A register array.
    pub fn register(&mut self, name: &str, width: u32, size: u32) -> RegisterId {
        self.program.registers.push(Register { name: name.to_string(), width, size });
        RegisterId(id(self.program.registers.len() - 1))
    }

    /// An indirect counter array; its number.
    pub fn counter(&mut self, name: &str, size: u32) -> u32 {
        self.program.counters.push(CounterArray { name: name.to_string(), size });
        id(self.program.counters.len() - 1)
    }

    /// A digest.
    pub fn digest(&mut self, name: &str, fields: &[(&str, u32)]) -> DigestId {
        let fields =
            fields.iter().map(|(n, w)| Param { name: (*n).to_string(), width: *w }).collect();
        self.program.digests.push(Digest { name: name.to_string(), fields });
        DigestId(id(self.program.digests.len() - 1))
    }

    /// A service.
    pub fn service(
        &mut self,
        name: &str,
        args: &[(&str, u32)],
        results: &[(&str, u32)],
        edits: bool,
    ) -> ServiceId {
        let [args, results] = [args, results].map(|list| {
            list.iter().map(|(n, w)| Param { name: (*n).to_string(), width: *w }).collect()
        });
        self.program.services.push(Service { name: name.to_string(), args, results, edits });
        ServiceId(id(self.program.services.len() - 1))
    }

    /// What was declared so far.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The program as declared; fields without a method here can be set on it before it is verified.
    pub fn finish(self) -> Program {
        self.program
    }
}

//! The parser: states, extraction, selection.
//!
//! The cursor counts bits, so headers of any width follow one another. An operation that fails
//! leaves the cursor where it was and ends parsing with an error code; what was extracted until then
//! stays, the rest is payload.

use crate::context::Context;
use crate::machine::Run;
use crate::show;
use crate::trace::Kind;
use ir::program::{PARSER_STEPS_MAX, intrinsic, parser_error};
use ir::{Bits, Expr, FieldRef, HeaderId, ParserOp, ParserStateId, Select, Transition};
use smallvec::SmallVec;

/// Parsing ended in reject, with this error code.
struct Reject(u8);

impl<'a> Run<'a> {
    /// Parses the context's source from the start state. False: rejected, and the program does not
    /// go on with rejected packets.
    pub(crate) fn parse(&mut self, context: &mut Context) -> bool {
        context.begin_parsing();
        let layout = self.layout;
        let Some(start) = layout.program.parser.first() else {
            context.store.set_meta(layout, intrinsic::PARSER_ERROR, u64::from(parser_error::NONE));
            return true;
        };
        if self.trace.is_some() {
            // The line is known at the end only; until then its place is held by the state's name.
            self.open(Kind::Parse, || format!("parse {}", start.name));
        }
        let rejected = self.states(context).err();
        let code = rejected.as_ref().map_or(parser_error::NONE, |Reject(code)| *code);
        // What the parser assigned to metadata is part of what was parsed.
        context.changed = false;
        context.store.set_meta(layout, intrinsic::PARSER_ERROR, u64::from(code));
        let input = self.input;
        self.close_as(|| {
            let headers = show::valid_headers(layout, &context.store);
            let error = rejected.as_ref().map(|Reject(code)| show::parser_error(*code));
            let error = error.map_or(String::new(), |e| format!("; reject {e}"));
            let left = context.parts(input).bits().saturating_sub(context.cursor);
            let left = match left % 8 {
                0 => format!("{} bytes", left / 8),
                _ => format!("{left} bits"),
            };
            format!("parse {}: {headers}{error}; payload {left}", start.name)
        });
        rejected.is_none() || layout.program.reject_continues
    }

    fn states(&mut self, context: &mut Context) -> Result<(), Reject> {
        let program = &self.layout.program;
        let mut at = ParserStateId(0);
        for _ in 0..PARSER_STEPS_MAX {
            let state = &program.parser[at.index()];
            let mut result = Ok(());
            for op in &state.ops {
                result = self.parser_op(context, op);
                if result.is_err() {
                    break;
                }
            }
            let next = result.and_then(|()| self.transition(context, &state.next));
            self.note(Kind::Parse, || {
                let to = match &next {
                    Ok(Some(next)) => program.parser[next.index()].name.as_str(),
                    Ok(None) => "accept",
                    Err(_) => "reject",
                };
                format!("{} -> {to}", state.name)
            });
            match next? {
                Some(next) => at = next,
                None => return Ok(()),
            }
        }
        Err(Reject(parser_error::TIMEOUT))
    }

    /// The state that a transition leads to; `None` is accept.
    fn transition(
        &self,
        context: &Context,
        transition: &'a Transition,
    ) -> Result<Option<ParserStateId>, Reject> {
        match transition {
            Transition::Accept => Ok(None),
            Transition::Reject => Err(Reject(parser_error::NONE)),
            Transition::State(state) => Ok(Some(*state)),
            Transition::Select { keys, cases } => {
                let env = self.env(context, &[]);
                let values: SmallVec<[_; 2]> = keys.iter().map(|k| env.eval(k)).collect();
                let case = cases.iter().find(|case| {
                    let mut columns = case.patterns.iter().zip(&values);
                    columns.all(|(pattern, value)| self.select_matches(pattern, value))
                });
                match case {
                    Some(case) => self.transition(context, &case.next),
                    None => Err(Reject(parser_error::NO_MATCH)),
                }
            }
        }
    }

    fn select_matches(&self, pattern: &Select, value: &Bits) -> bool {
        match pattern {
            Select::Any => true,
            Select::Masked(v, mask) if value.width() <= 64 => {
                (value.low_u64() ^ v.low_u64()) & mask.low_u64() == 0
            }
            Select::Masked(v, mask) => value.and(mask).compare(&v.and(mask)).is_eq(),
            Select::Range(lo, hi) => value.compare(lo).is_ge() && value.compare(hi).is_le(),
            Select::ValueSet(id) => self.view.value_set(*id).iter().any(|member| {
                // A value set holds patterns only, no other value sets.
                !matches!(member, Select::ValueSet(_)) && self.select_matches(member, value)
            }),
        }
    }

    fn parser_op(&mut self, context: &mut Context, op: &'a ParserOp) -> Result<(), Reject> {
        let layout = self.layout;
        match op {
            ParserOp::Extract { header, varbit } => self.extract(context, *header, varbit.as_ref()),
            ParserOp::ExtractNext { stack, varbit } => {
                let elements = layout.stack(*stack);
                let last = context.store.last(layout, *stack);
                let next = last.map_or(elements.start, |last| last.index() + 1);
                if next >= elements.end {
                    return Err(Reject(parser_error::STACK_OUT_OF_BOUNDS));
                }
                self.extract(context, HeaderId(next as u32), varbit.as_ref())
            }
            ParserOp::Advance(bits) => {
                let bits = self.env(context, &[]).eval(bits).shift_amount() as usize;
                if bits > self.bits_left(context) {
                    return Err(Reject(parser_error::PACKET_TOO_SHORT));
                }
                context.cursor += bits;
                context.in_order &= bits == 0;
                Ok(())
            }
            ParserOp::Assign(field, value) => {
                let value = self.env(context, &[]).eval(value);
                if !matches!(field, FieldRef::Meta(_)) {
                    context.in_order = false;
                }
                context.store.write(layout, *field, &value);
                Ok(())
            }
            ParserOp::Verify(condition, code) => {
                let holds = self.env(context, &[]).holds(condition);
                if holds { Ok(()) } else { Err(Reject(*code)) }
            }
        }
    }

    fn bits_left(&self, context: &Context) -> usize {
        context.parts(self.input).bits().saturating_sub(context.cursor)
    }

    /// Reads a header: first its fixed fields, which the varbit field's width may look at. If that
    /// fails, the header is invalid.
    fn extract(
        &mut self,
        context: &mut Context,
        header: HeaderId,
        varbit: Option<&'a Expr>,
    ) -> Result<(), Reject> {
        let layout = self.layout;
        let ty = layout.type_of(header);
        if self.bits_left(context) < ty.fixed {
            return Err(Reject(parser_error::PACKET_TOO_SHORT));
        }
        if let Some(union) = layout.program.headers[header.index()].union {
            let members = &layout.program.unions[union.index()].members;
            context.in_order &= !members.iter().any(|m| context.store.valid(*m));
        }
        let parts = context.source.parts(self.input);
        parts.copy(context.cursor, ty.fixed, context.store.header_mut(layout, header));
        context.store.set_varbit(header, 0);
        context.store.mark_valid(layout, header);
        let mut bits = ty.fixed;
        if let Some(varbit) = varbit {
            let width = self.env(context, &[]).eval(varbit).shift_amount() as usize;
            let error = if width > ty.varbit {
                Some(parser_error::HEADER_TOO_SHORT)
            } else if width > self.bits_left(context) - ty.fixed {
                Some(parser_error::PACKET_TOO_SHORT)
            } else {
                None
            };
            if let Some(error) = error {
                context.store.set_invalid(header);
                context.in_order = false;
                return Err(Reject(error));
            }
            bits += width;
            let parts = context.source.parts(self.input);
            parts.copy(context.cursor, bits, context.store.header_mut(layout, header));
            context.store.set_varbit(header, width as u32);
        }
        context.cursor += bits;
        context.note_extracted(layout, header);
        Ok(())
    }
}

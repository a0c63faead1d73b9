//! From the typed tree to the pipeline language.
//!
//! The package is made first: objects get their arguments, tables and externs their full names. Then
//! the architecture ([`v1model`]) says which parser and controls run when, and each is written out in
//! place: sub-parsers and sub-controls, functions and actions are inlined with copy-in and copy-out,
//! loops are written out round by round as far as their ends are known, structs become metadata fields and headers, a stack's element that is known only
//! at run time becomes a choice among all of them. Statements first become a small structured tree
//! ([`step::Step`]), from which blocks, actions or parser states are made.
//!
//! | module | holds |
//! |---|---|
//! | `operand` | places and values |
//! | `fold` | expressions, computed as far as they are constant |
//! | `value` | reading, writing, copying |
//! | `expr` | expressions |
//! | `stmt` | statements, calls, tables, states |
//! | `step` | the structured tree |
//! | `tree` | blocks, actions and states from it |
//! | `externs` | what v1model's externs do |
//! | `depth` | how many frames wait at a port |
//! | `late` | fields that are read of a header that has become invalid |
//! | `made`, `counted` | headers that a parser makes valid, invalid or copies; stacks that it counts |
//! | `v1model`, `state` | the architecture: which part runs when, what is between them |
//! | `names` | what the control plane calls tables, keys, actions |
//!
//! What the pipeline language cannot say is refused with its place.

mod counted;
mod depth;
mod expr;
mod externs;
mod fold;
mod late;
mod made;
pub mod names;
mod operand;
mod state;
mod step;
mod stmt;
mod tree;
mod v1model;
mod value;

use crate::ast::StructKind;
use crate::diag::{Diagnostic, Diagnostics};
use crate::hir::{self, Const, Construct, ExprKind};
use crate::source::Span;
use crate::types::*;
use ir::builder::Builder;
use ir::{Field, HeaderTypeId, MetaId};
use names::Names;
use operand::V;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use step::Step;

/// A program in the pipeline language, and what its parts are called.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The program.
    pub program: ir::Program,
    /// Names for the control plane.
    pub names: Names,
    /// Entries that the program itself has.
    pub entries: Vec<(ir::TableId, ir::Entry)>,
}

/// Lowers a program that was checked without errors. `None` if something was refused, which is told.
pub fn lower(program: &hir::Program, diagnostics: &mut Diagnostics) -> Option<Lowered> {
    let before = diagnostics.errors();
    // Which stacks the parser counts itself is known once all of it is written; then it is written anew.
    let mut counted = counted::Counted::default();
    let (lower, result) = loop {
        let mut lower = Lower::new(program.clone(), diagnostics);
        lower.v1.counted = counted;
        let result = lower.package();
        match lower.v1.anew.take() {
            Some(more) => counted = more,
            None => break (lower, result),
        }
    };
    let ok = result.is_ok() && lower.d.errors() == before;
    if !ok {
        if lower.d.errors() == before {
            lower.d.add(Diagnostic::error(
                "unsupported",
                Span::default(),
                "the program could not be lowered",
            ));
        }
        return None;
    }
    let (ir_program, mut names, entries) = lower.finish();
    names.calculations.sort_by_key(|c| c.place);
    for (n, calculation) in names.calculations.iter_mut().enumerate() {
        calculation.name = match n {
            0 => "calc".to_string(),
            n => format!("calc_{}", n - 1),
        };
    }
    let new_types = program.newtypes.iter();
    let new_types = new_types.filter_map(|n| Some((n.name.to_string(), bits_of(program, n.base)?)));
    names.new_types = new_types.collect();
    let made = std::sync::Arc::new(ir_program);
    if let Err(e) = ir::Pipeline::new(made.clone()) {
        let text = format!("the pipeline language refuses what was made of this program: {e}");
        diagnostics.add(Diagnostic::error("unsupported", Span::default(), text));
        return None;
    }
    let program = std::sync::Arc::try_unwrap(made).unwrap_or_else(|a| (*a).clone());
    Some(Lowered { program, names, entries })
}

/// The bits of a type that a new type may be of.
fn bits_of(program: &hir::Program, mut ty: TyId) -> Option<u32> {
    loop {
        match program.ty(ty) {
            Ty::Bool => return Some(1),
            Ty::Bit(w) | Ty::Signed(w) => return Some(*w),
            Ty::New(n) => ty = program.newtypes[n.index()].base,
            Ty::Enum(e) => ty = program.enums[e.index()].repr?,
            _ => return None,
        }
    }
}

/// Calls inside of calls, objects inside of objects, at most.
const CALLS_MAX: u32 = 128;
/// Statements and expressions inside of each other, at most: what the stack is enough for.
const NESTING_MAX: u32 = 10_000;
/// Bytes of a counter's cell; of a meter's, when its rates are set.
const COUNTER_BYTES: u64 = 16;
const METER_BYTES: u64 = 128;

/// Something was refused; it was told already.
#[derive(Debug)]
struct Refused;

type Result<T> = std::result::Result<T, Refused>;

/// An object: an instance of an extern, parser or control.
#[derive(Clone, Debug)]
struct Object {
    /// Full name, as `ingress.sub.counter`.
    path: String,
    kind: ObjectKind,
    functions: Vec<FunctionId>,
    /// What its methods see.
    frame: Frame,
}

#[derive(Clone, Debug)]
enum ObjectKind {
    /// Not a thing of the pipeline language by itself.
    Plain,
    Counter(u32),
    Register(ir::RegisterId),
    /// Number of the first meter.
    Meter(u32),
    /// A meter in each entry; rates count packets.
    DirectMeter(bool),
    /// Number in the names; of a selector, its hash function.
    Profile(usize, Option<ir::HashAlgorithm>),
    /// A parser's or control's inside.
    Inside(ApplyId),
}

/// What names mean while something is written out.
#[derive(Clone, Debug, Default)]
struct Frame {
    vars: HashMap<VarId, V>,
    objects: HashMap<InstanceId, usize>,
    tables: HashMap<TableId, usize>,
    /// Type parameters and what they are.
    types: Vec<(TypeVarId, TyId)>,
    /// Prefix of names made here.
    path: String,
    this: Option<usize>,
}

/// A table of an instance of a control.
#[derive(Clone, Debug)]
struct TableSite {
    id: ir::TableId,
    /// The IR action of each listed action.
    actions: Vec<(ActionId, ir::ActionId)>,
    /// With an action selector: the actions of entries with groups, and the table of members; and the bit that
    /// these actions set.
    selector: Option<(names::Selector, ir::FieldRef)>,
    /// What is called in place of an action that is the default.
    counted: Vec<(ir::ActionId, ir::ActionId)>,
}

/// Which part of the architecture is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Parser,
    Verify,
    Ingress,
    Egress,
    Checksum,
    Deparser,
}

struct Lower<'a> {
    p: hir::Program,
    d: &'a mut Diagnostics,
    b: Builder,
    frame: Frame,
    objects: Vec<Object>,
    tables: Vec<TableSite>,
    names: Names,
    entries: Vec<(ir::TableId, ir::Entry)>,
    used: HashSet<String>,
    /// The next number for a name that is there already.
    numbers: HashMap<String, u32>,
    /// What was written out so far, against [`Limits`](crate::limits::Limits).
    spent: u64,
    /// Bytes of registers, counters, meters so far.
    state_bytes: u128,
    /// Calls, objects, statements, expressions inside of each other.
    calls: u32,
    nesting: u32,
    header_types: HashMap<TyId, HeaderTypeId>,
    /// Steps written so far of the innermost list.
    out: Vec<Step>,
    labels: u32,
    /// Where `return`, `exit`, `break`, `continue` go.
    on_return: Option<(step::Label, Option<V>)>,
    on_exit: Option<step::Label>,
    /// What `exit` sets, so that arguments are copied out before it goes on (§12.4).
    exit_flag: Option<ir::FieldRef>,
    /// A place that is read and written by one statement (`a[f()] += 1`), found once.
    compound: Option<(Span, V)>,
    loops: Vec<(step::Label, step::Label)>,
    part: Part,
    /// Inside of an action that a table runs: `exit` is a `goto`.
    in_action: bool,
    /// Applications of one object: first where its parameters live.
    homes: HashMap<usize, HashMap<VarId, V>>,
    sites: HashMap<InstanceId, u32>,
    inlined: u32,
    meters: u32,
    sm: Option<V>,
    v1: state::State,
    /// Metadata of each user-visible field, for field lists.
    field_lists: Vec<(u8, MetaId)>,
}

impl<'a> Lower<'a> {
    fn new(p: hir::Program, d: &'a mut Diagnostics) -> Lower<'a> {
        let mut b = Builder::new();
        let v1 = state::State::new(&mut b);
        Lower {
            p,
            d,
            b,
            frame: Frame::default(),
            objects: Vec::new(),
            tables: Vec::new(),
            names: Names::default(),
            entries: Vec::new(),
            used: HashSet::new(),
            numbers: HashMap::new(),
            spent: 0,
            state_bytes: 0,
            calls: 0,
            nesting: 0,
            header_types: HashMap::new(),
            out: Vec::new(),
            labels: 0,
            on_return: None,
            on_exit: None,
            exit_flag: None,
            compound: None,
            loops: Vec::new(),
            part: Part::Parser,
            in_action: false,
            homes: HashMap::new(),
            sites: HashMap::new(),
            inlined: 0,
            meters: 0x4000_0000,
            sm: None,
            v1,
            field_lists: Vec::new(),
        }
    }

    fn refuse<T>(&mut self, span: Span, text: impl Into<String>) -> Result<T> {
        self.d.add(Diagnostic::error("unsupported", span, text));
        Err(Refused)
    }

    /// A name that nothing else has.
    fn unique(&mut self, wanted: &str) -> String {
        let base: String = wanted
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']') {
                    c
                } else {
                    '_'
                }
            })
            .collect();
        let mut name = base.clone();
        let mut n = self.numbers.get(&base).copied().unwrap_or(1);
        while name.is_empty() || !self.used.insert(name.clone()) {
            name = format!("{base}_{n}");
            n += 1;
        }
        self.numbers.insert(base, n);
        name
    }

    /// Counts what is written out; refuses the program, once, when that is more than it may become.
    fn spend(&mut self, steps: u64, span: Span) -> Result<()> {
        let most = self.p.limits.steps;
        let before = self.spent;
        self.spent = before.saturating_add(steps);
        if self.spent <= most {
            return Ok(());
        }
        if before <= most {
            let text = format!(
                "the program becomes larger than {most} steps when calls, instances, loops and \
                 variables are written out in place"
            );
            self.d.add(Diagnostic::error("too-large", span, text));
        }
        Err(Refused)
    }

    /// Counts bytes of an array of `cells` cells.
    fn spend_state(&mut self, what: &str, cells: u32, cell_bytes: u64, span: Span) -> Result<()> {
        use crate::limits::bytes;
        let most = self.p.limits.state_bytes;
        let own = u128::from(cells) * u128::from(cell_bytes);
        self.state_bytes += own;
        if self.state_bytes <= u128::from(most) {
            return Ok(());
        }
        let text = format!(
            "{what} of {cells} cells takes {}, and with what comes before it {}; registers, \
             counters and meters may take {} in all",
            bytes(own),
            bytes(self.state_bytes),
            bytes(most.into())
        );
        self.d.add(Diagnostic::error("too-large", span, text));
        Err(Refused)
    }

    /// Runs `f` inside of one more call or object.
    fn inside_call<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.calls >= CALLS_MAX {
            let text = format!("calls and instances are nested more than {CALLS_MAX} deep");
            self.d.add(Diagnostic::error("too-deep", span, text));
            return Err(Refused);
        }
        self.calls += 1;
        let result = f(self);
        self.calls -= 1;
        result
    }

    /// Runs `f` inside of one more statement or expression, and counts it.
    fn nested<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.spend(1, span)?;
        if self.nesting >= NESTING_MAX {
            let text = format!("nested more than {NESTING_MAX} deep, calls written out in place");
            self.d.add(Diagnostic::error("too-deep", span, text));
            return Err(Refused);
        }
        self.nesting += 1;
        let result = f(self);
        self.nesting -= 1;
        result
    }

    fn label(&mut self) -> step::Label {
        self.labels += 1;
        step::Label(self.labels)
    }

    /// A type with the type parameters at hand replaced.
    fn ty(&mut self, ty: TyId) -> TyId {
        if self.frame.types.is_empty() {
            return ty;
        }
        let (vars, args): (Vec<TypeVarId>, Vec<TyId>) = self.frame.types.iter().copied().unzip();
        self.p.types.substitute(ty, &vars, &args)
    }

    /// Width of a value that is one bit string.
    fn width(&mut self, ty: TyId) -> Option<u32> {
        let ty = self.ty(ty);
        match self.p.ty(ty).clone() {
            Ty::Bool => Some(1),
            Ty::Bit(w) | Ty::Signed(w) | Ty::Varbit(w) => Some(w),
            Ty::Error => Some(8),
            Ty::Enum(e) => match self.p.enums[e.index()].repr {
                Some(repr) => self.width(repr),
                None => Some(32),
            },
            Ty::New(n) => {
                let base = self.p.newtypes[n.index()].base;
                self.width(base)
            }
            _ => None,
        }
    }

    fn is_signed(&mut self, ty: TyId) -> bool {
        let ty = self.ty(ty);
        match self.p.ty(ty).clone() {
            Ty::Signed(_) => true,
            Ty::Enum(e) => self.p.enums[e.index()].repr.is_some_and(|r| self.is_signed(r)),
            Ty::New(n) => {
                let base = self.p.newtypes[n.index()].base;
                self.is_signed(base)
            }
            _ => false,
        }
    }

    /// Leaves of a header's field, with the names of structs in front.
    fn header_fields(
        &mut self,
        name: &str,
        ty: TyId,
        span: Span,
        out: &mut Vec<Field>,
    ) -> Result<()> {
        let ty = self.ty(ty);
        if let Ty::Struct(s, args) = self.p.ty(ty).clone() {
            let types = self.p.field_types(s, &args);
            let fields = self.p.structs[s.index()].fields.clone();
            for (f, t) in fields.iter().zip(types) {
                let inner =
                    if name.is_empty() { f.name.to_string() } else { format!("{name}_{}", f.name) };
                self.header_fields(&inner, t, f.span, out)?;
            }
            return Ok(());
        }
        let varbit = matches!(self.p.ty(ty), Ty::Varbit(_));
        let most = match varbit {
            true => ir::program::VARBIT_WIDTH_MAX,
            false => ir::program::FIELD_WIDTH_MAX,
        };
        match self.width(ty) {
            // Its one value needs no room.
            Some(0) => Ok(()),
            Some(width) if width <= most => {
                out.push(Field { name: name.to_string(), width, varbit });
                Ok(())
            }
            Some(width) => self.refuse(
                span,
                format!("the field `{name}` has {width} bits; at most {most} are supported"),
            ),
            None => self.refuse(span, "a header field of this type is not supported"),
        }
    }

    fn header_type(&mut self, ty: TyId, span: Span) -> Result<HeaderTypeId> {
        let ty = self.ty(ty);
        if let Some(id) = self.header_types.get(&ty) {
            return Ok(*id);
        }
        let mut fields = Vec::new();
        self.header_fields("", ty, span, &mut fields)?;
        for i in 0..fields.len() {
            while fields[..i].iter().any(|f| f.name == fields[i].name) {
                fields[i].name.push('_');
            }
        }
        let shown = self.p.show(ty);
        let name = self.unique(&format!("t_{shown}"));
        let id = self.b.header_type_fields(&name, fields);
        self.header_types.insert(ty, id);
        Ok(id)
    }

    /// A place for values of this type.
    fn alloc(&mut self, ty: TyId, name: &str, span: Span) -> Result<V> {
        self.spend(1, span)?;
        let ty = self.ty(ty);
        Ok(match self.p.ty(ty).clone() {
            Ty::Struct(s, args) => {
                let kind = self.p.structs[s.index()].kind;
                if kind == StructKind::Header {
                    let t = self.header_type(ty, span)?;
                    let name = self.unique(name);
                    return Ok(V::H(self.b.header(&name, t), ty));
                }
                let types = self.p.field_types(s, &args);
                let fields = self.p.structs[s.index()].fields.clone();
                let mut items = Vec::new();
                for (f, t) in fields.iter().zip(types) {
                    let inner = if name.is_empty() {
                        f.name.to_string()
                    } else {
                        format!("{name}.{}", f.name)
                    };
                    let v = self.alloc(t, &inner, f.span)?;
                    let lists = match field_list(&self.p, &f.annotations) {
                        Ok(lists) => lists,
                        Err(what) => {
                            let text = format!(
                                "@field_list({what}): a number, a constant or a member of an enum was expected, \
                                 from 0 to 255"
                            );
                            return self.refuse(f.span, text);
                        }
                    };
                    for list in lists {
                        v.metas(&mut |m| self.field_lists.push((list, m)));
                    }
                    items.push(v);
                }
                if kind == StructKind::Union {
                    let members: Vec<ir::HeaderId> = items
                        .iter()
                        .filter_map(|v| if let V::H(h, _) = v { Some(*h) } else { None })
                        .collect();
                    let name = self.unique(name);
                    self.b.union(&name, &members);
                }
                V::S(items.into(), ty)
            }
            Ty::Tuple(types) => {
                let mut items = Vec::new();
                for (i, t) in types.iter().enumerate() {
                    items.push(self.alloc(*t, &format!("{name}.f{i}"), span)?);
                }
                V::S(items.into(), ty)
            }
            Ty::Stack(element, n) => {
                if n == 0 || n > 255 {
                    return self
                        .refuse(span, format!("a stack of {n}; 1 to 255 elements are supported"));
                }
                let element = self.ty(element);
                if self.p.ty(element).clone() != Ty::Bad && self.is_header(element) {
                    let t = self.header_type(element, span)?;
                    let name = self.unique(name);
                    let id = self.b.stack(&name, t, n);
                    let items: Vec<V> =
                        (0..n).map(|i| V::H(self.b.element(id, i), element)).collect();
                    let next = match self.v1.counted.has(&name) {
                        true => Some(self.next_of_stack(&name)),
                        false => None,
                    };
                    return Ok(V::K(items.into(), Some(id), next));
                }
                let mut items = Vec::new();
                for i in 0..n {
                    items.push(self.alloc(element, &format!("{name}_{i}"), span)?);
                }
                let next = self.next_of_stack(name);
                V::K(items.into(), None, Some(next))
            }
            // Bits and how many they are live in a header that nothing emits.
            Ty::Varbit(w) if w > 0 && w <= ir::program::VARBIT_WIDTH_MAX => {
                let type_name = self.unique(&format!("t_varbit_{w}"));
                let field = Field { name: "bits".into(), width: w, varbit: true };
                let t = self.b.header_type_fields(&type_name, vec![field]);
                let name = self.unique(name);
                let header = self.b.header(&name, t);
                self.v1.varbits.insert(header);
                V::F(ir::FieldRef::Header(header, ir::FieldId(0)), w)
            }
            _ => match self.width(ty) {
                Some(w) if w > 0 && w <= ir::program::FIELD_WIDTH_MAX => {
                    let name = self.unique(name);
                    V::F(ir::FieldRef::Meta(self.b.meta(&name, w)), w)
                }
                Some(0) => V::E(ir::Expr::Const(ir::Bits::zero(0)), 0),
                _ => {
                    let shown = self.p.show(ty);
                    return self
                        .refuse(span, format!("a variable of type {shown} is not supported"));
                }
            },
        })
    }

    /// The next index of a stack that the parser counts itself.
    fn next_of_stack(&mut self, name: &str) -> MetaId {
        let next = self.unique(&format!("{name}.next"));
        let next = self.b.meta(&next, 8);
        self.v1.nexts.push(next);
        next
    }

    fn is_header(&self, ty: TyId) -> bool {
        matches!(self.p.ty(ty), Ty::Struct(s, _) if self.p.structs[s.index()].kind == StructKind::Header)
    }

    fn is_union(&self, ty: TyId) -> bool {
        matches!(self.p.ty(ty), Ty::Struct(s, _) if self.p.structs[s.index()].kind == StructKind::Union)
    }

    /// A scalar of the compiler's own.
    fn temp(&mut self, name: &str, width: u32) -> (ir::FieldRef, V) {
        let name = self.unique(&format!("tmp.{name}"));
        let field = ir::FieldRef::Meta(self.b.meta(&name, width));
        (field, V::F(field, width))
    }

    /// What is done by `f`, as a list of steps.
    fn steps(&mut self, f: impl FnOnce(&mut Self) -> Result<()>) -> Result<Vec<Step>> {
        let outer = std::mem::take(&mut self.out);
        let filled = self.v1.filled.clone();
        let result = f(self);
        // What is so inside need not be so behind it.
        self.v1.filled.retain(|size| filled.contains(size));
        let steps = std::mem::replace(&mut self.out, outer);
        result.map(|()| steps)
    }

    fn op(&mut self, op: ir::Op) {
        self.out.push(Step::Op(op));
    }

    /// Runs `f` with another frame.
    fn framed<T>(&mut self, frame: Frame, f: impl FnOnce(&mut Self) -> T) -> T {
        let old = std::mem::replace(&mut self.frame, frame);
        let result = f(self);
        self.frame = old;
        result
    }

    // Objects.

    /// Makes an object, with everything inside of it.
    fn make(
        &mut self,
        c: &Construct,
        name: &str,
        functions: &[FunctionId],
        annotations: Rc<[crate::ast::Annotation]>,
        span: Span,
    ) -> Result<usize> {
        self.spend(16, span)?;
        self.inside_call(span, |l| l.make_inside(c, name, functions, annotations, span))
    }

    fn make_inside(
        &mut self,
        c: &Construct,
        name: &str,
        functions: &[FunctionId],
        annotations: Rc<[crate::ast::Annotation]>,
        span: Span,
    ) -> Result<usize> {
        let ty = self.ty(c.ty);
        let mut args = Vec::new();
        for (i, a) in c.args.iter().enumerate() {
            args.push(match a {
                Some(e) => Some(self.static_value(e, &format!("{name}_{i}"))?),
                None => None,
            });
        }
        let given = hir::annotation_text(&annotations, "name").map(str::to_string);
        let own = match &given {
            Some(text) if text.starts_with('.') => text[1..].to_string(),
            Some(text) => join(&self.frame.path, text),
            None if name.starts_with('.') => name[1..].to_string(),
            None => join(&self.frame.path, name),
        };
        let number = |i: usize| match args.get(i) {
            Some(Some(V::C(Const::Int(n)))) => u32::try_from(n).ok(),
            Some(Some(V::E(ir::Expr::Const(b), _))) => Some(b.low_u32()),
            _ => None,
        };
        if let Ty::Extern(e, types) = self.p.ty(ty).clone() {
            self.names.instances.push(names::InstanceName {
                name: own.clone(),
                kind: self.p.externs[e.index()].name.to_string(),
                types: types.to_vec(),
                numbers: (0..args.len()).map(number).collect(),
                id: crate::annotations::annotated_number(&annotations, "id"),
                max_group_size: crate::annotations::annotated_number(
                    &annotations,
                    "max_group_size",
                ),
                annotations: crate::annotations::told(&annotations),
            });
        }
        let kind = match self.p.ty(ty).clone() {
            Ty::Extern(e, targs) => match &*self.p.externs[e.index()].name {
                "counter" => {
                    let size = number(0).unwrap_or(1);
                    let bytes = COUNTER_BYTES.saturating_mul(self.p.limits.workers);
                    self.spend_state(&format!("the counter `{own}`"), size, bytes, span)?;
                    let unique = self.unique(&own);
                    let id = self.b.counter(&unique, size.max(1));
                    self.names.counters.push((own.clone(), id));
                    ObjectKind::Counter(id)
                }
                "register" => {
                    let size = number(0).unwrap_or(1);
                    let width = self.total_width(targs[0]);
                    let Some(width) =
                        width.filter(|w| *w > 0 && *w <= ir::program::FIELD_WIDTH_MAX)
                    else {
                        return self.refuse(span, "a register of this type is not supported");
                    };
                    let bytes = u64::from(width.div_ceil(64)) * 8;
                    self.spend_state(&format!("the register `{own}`"), size, bytes, span)?;
                    let unique = self.unique(&own);
                    let id = self.b.register(&unique, width, size.max(1));
                    self.names.registers.push((own.clone(), id, width));
                    ObjectKind::Register(id)
                }
                "meter" => {
                    let size = number(0).unwrap_or(1);
                    self.spend_state(&format!("the meter `{own}`"), size, METER_BYTES, span)?;
                    let first = self.meters;
                    let Some(next) = first.checked_add(size.max(1)) else {
                        return self.refuse(span, "there are more meters than can be numbered");
                    };
                    self.meters = next;
                    // MeterType.packets is the first member.
                    let packets = number(1) == Some(0);
                    let name = own.clone();
                    self.names.meters.push(names::MeterName { name, first, size, packets });
                    ObjectKind::Meter(first)
                }
                // MeterType.packets is the first member.
                "direct_meter" => ObjectKind::DirectMeter(number(0) == Some(0)),
                profile @ ("action_profile" | "action_selector") => {
                    let selector = profile == "action_selector";
                    let hash = match (selector, number(0)) {
                        (false, _) => None,
                        (true, n) => Some(self.selector_hash(n, span)?),
                    };
                    let size = number(usize::from(selector)).unwrap_or(1);
                    let name = own.clone();
                    let tables = Vec::new();
                    self.names.profiles.push(names::ProfileName { name, selector, size, tables });
                    ObjectKind::Profile(self.names.profiles.len() - 1, hash)
                }
                _ => ObjectKind::Plain,
            },
            Ty::Apply(a, _) => ObjectKind::Inside(a),
            _ => ObjectKind::Plain,
        };
        // Only methods that the instance defines see what is around it.
        let around = if functions.is_empty() { Frame::default() } else { self.frame.clone() };
        self.spend(around.vars.len() as u64 + around.objects.len() as u64, span)?;
        let frame = Frame { path: own.clone(), ..around };
        let id = self.objects.len();
        self.objects.push(Object {
            path: own.clone(),
            kind: kind.clone(),
            functions: functions.to_vec(),
            frame,
        });
        if let (ObjectKind::Inside(a), Ty::Apply(_, targs)) = (kind, self.p.ty(ty).clone()) {
            self.inside(id, a, &targs, args, own)?;
        }
        Ok(id)
    }

    fn total_width(&mut self, ty: TyId) -> Option<u32> {
        let ty = self.ty(ty);
        match self.p.ty(ty).clone() {
            Ty::Struct(s, args) if self.p.structs[s.index()].kind == StructKind::Struct => {
                let types = self.p.field_types(s, &args);
                types.into_iter().try_fold(0, |sum, t| Some(sum + self.total_width(t)?))
            }
            Ty::Tuple(types) => {
                types.iter().try_fold(0, |sum, t| Some(sum + self.total_width(*t)?))
            }
            _ => self.width(ty),
        }
    }

    /// The inside of a parser or control: its constants, objects, variables, tables.
    fn inside(
        &mut self,
        id: usize,
        a: ApplyId,
        targs: &[TyId],
        args: Vec<Option<V>>,
        path: String,
    ) -> Result<()> {
        let def = self.p.applicables[a.index()].clone();
        let Some(body) = def.body else { return Ok(()) };
        let mut frame = Frame { path, ..Frame::default() };
        frame.types = def.type_params.iter().copied().zip(targs.iter().copied()).collect();
        for (p, v) in def.ctor_params.iter().zip(args) {
            if let Some(v) = v {
                frame.vars.insert(p.var, v);
            }
        }
        let outer = std::mem::replace(&mut self.frame, frame);
        let result = self.inside_frame(&body);
        let frame = std::mem::replace(&mut self.frame, outer);
        self.objects[id].frame = frame;
        result
    }

    fn inside_frame(&mut self, body: &hir::Body) -> Result<()> {
        self.make_instances(&body.locals)?;
        let nested: Vec<&hir::Stmt> =
            body.apply.iter().chain(body.states.iter().flat_map(|s| &s.stmts)).collect();
        for s in nested {
            self.make_instances(std::slice::from_ref(s))?;
        }
        Ok(())
    }

    /// Objects declared among statements, wherever they are nested.
    fn make_instances(&mut self, stmts: &[hir::Stmt]) -> Result<()> {
        use hir::StmtKind as S;
        for s in stmts {
            match &s.kind {
                S::Instance(id) => {
                    let i = self.p.instances[id.index()].clone();
                    let made = self.make(
                        &i.construct,
                        &i.name,
                        &i.functions,
                        i.annotations.clone(),
                        i.span,
                    )?;
                    self.frame.objects.insert(*id, made);
                }
                S::Var(v, Some(e)) if self.p.vars[v.index()].kind == hir::VarKind::Const => {
                    let value = self.static_value(e, "const")?;
                    self.frame.vars.insert(*v, value);
                }
                S::Block(b) => self.make_instances(b)?,
                S::If(_, a, b) => {
                    self.make_instances(a)?;
                    self.make_instances(b)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A value or object that is known when objects are made.
    fn static_value(&mut self, e: &hir::Expr, name: &str) -> Result<V> {
        match &e.kind {
            ExprKind::Construct(c) => {
                let text = match self.p.ty(c.ty) {
                    Ty::Apply(a, _) => self.p.applicables[a.index()].name.to_string(),
                    _ => name.to_string(),
                };
                let id = self.make(c, &text, &[], Rc::from([]), e.span)?;
                Ok(V::O(id))
            }
            ExprKind::Instance(i) => self.instance_object(*i, e.span).map(V::O),
            _ => {
                let v = self.expr(e)?;
                Ok(v)
            }
        }
    }

    /// The object that an instance is here; those at the top are made when first met.
    fn instance_object(&mut self, i: InstanceId, span: Span) -> Result<usize> {
        if let Some(id) = self.frame.objects.get(&i) {
            return Ok(*id);
        }
        if let Some(id) = self.v1.top_objects.get(&i) {
            return Ok(*id);
        }
        let inst = self.p.instances[i.index()].clone();
        if !self.p.top.contains(&i) {
            return self.refuse(span, format!("the object `{}` is not made here", inst.name));
        }
        let made = self.framed(Frame::default(), |l| {
            l.make(
                &inst.construct,
                &inst.name,
                &inst.functions,
                inst.annotations.clone(),
                inst.span,
            )
        })?;
        self.v1.top_objects.insert(i, made);
        Ok(made)
    }
}

/// `a.b`, or the one that is there.
fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }
}

/// Numbers of the field lists that a field is in: `@field_list(1, Lists.resubmitted, RESUBMITTED)`. Else what is none.
fn field_list(
    p: &hir::Program,
    annotations: &[crate::ast::Annotation],
) -> std::result::Result<Vec<u8>, String> {
    use crate::ast::{AnnotationBody as B, ExprKind as E};
    use crate::lex::Tok;
    let member = |of: &str, name: &str| -> std::result::Result<u8, String> {
        let found = p.enums.iter().find(|e| &*e.name == of);
        let value = found.and_then(|e| e.members.iter().find(|m| &*m.0 == name)?.1.as_ref());
        value.and_then(|value| u8::try_from(value).ok()).ok_or_else(|| format!("{of}.{name}"))
    };
    let constant = |name: &str| match p.constants.get(name) {
        Some(hir::Const::Int(value)) => u8::try_from(value).map_err(|_| name.to_owned()),
        _ => Err(name.to_owned()),
    };
    let mut out = Vec::new();
    for a in annotations.iter().filter(|a| &*a.name.name == "field_list") {
        match &a.body {
            B::Tokens(tokens) => {
                let mut tokens = tokens.iter().map(|t| &t.tok).peekable();
                while let Some(token) = tokens.next() {
                    out.push(match token {
                        Tok::P(",") => continue,
                        Tok::Int(text) => {
                            let read = crate::literal::integer(text).ok();
                            let number = read.and_then(|i| u8::try_from(&i.value).ok());
                            number.ok_or_else(|| text.to_string())?
                        }
                        Tok::Ident(of) if tokens.peek() == Some(&&Tok::P(".")) => {
                            tokens.next();
                            match tokens.next() {
                                Some(Tok::Ident(name)) => member(of, name)?,
                                _ => return Err(format!("{of}.")),
                            }
                        }
                        Tok::Ident(name) => constant(name)?,
                        other => return Err(format!("{other:?}")),
                    });
                }
            }
            B::Exprs(exprs) => {
                for e in exprs {
                    out.push(match &e.kind {
                        E::Int(v, _) => u8::try_from(v).map_err(|_| v.to_string())?,
                        E::Path(path) => constant(&path.ident.name)?,
                        E::Member(of, name) => match &of.kind {
                            E::Path(path) => member(&path.ident.name, &name.name)?,
                            _ => return Err(format!("….{}", name.name)),
                        },
                        _ => return Err("…".to_owned()),
                    });
                }
            }
            B::Empty => return Err(String::new()),
            _ => {}
        }
    }
    Ok(out)
}

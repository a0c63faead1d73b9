//! The typed tree: what a program says, every name resolved, every expression with its type.
//!
//! In: `check`. Out: for `lower`. Implicit casts are explicit, arguments stand in the order of their
//! parameters with default values filled in, struct-valued expressions are by position, and whatever
//! is known at compile time carries its value. Generic functions keep their type parameters; a call
//! says what they are.

use crate::ast::{Annotation, BinaryOp, Direction, StructKind, UnaryOp};
use crate::lex::{Name, Tok};
use crate::source::Span;
use crate::types::*;
use num_bigint::BigInt;
use std::rc::Rc;

/// A value known at compile time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Const {
    /// `bool`.
    Bool(bool),
    /// `int`, `bit`, `int<w>`, an enum with a representation, a new type of those.
    Int(BigInt),
    /// `string`.
    Str(Name),
    /// A member of an enum, by its place.
    Enum(u32),
    /// An error, by its place.
    Error(u32),
    /// A match kind, by its place.
    MatchKind(u32),
    /// Fields or elements in order.
    List(Rc<[Const]>),
    /// An invalid header or union.
    Invalid,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What.
    pub kind: ExprKind,
    /// Its type.
    pub ty: TyId,
    /// Where.
    pub span: Span,
    /// Its value, if it is known already.
    pub value: Option<Const>,
}

/// Kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `value` says it all.
    Const,
    /// A variable or parameter.
    Var(VarId),
    /// A field of a struct, header or union, by place.
    Field(Box<Expr>, u32),
    /// An element of a stack, tuple or list.
    Index(Box<Expr>, Box<Expr>),
    /// `stack.next`.
    Next(Box<Expr>),
    /// `stack.last`.
    Last(Box<Expr>),
    /// `stack.lastIndex`.
    LastIndex(Box<Expr>),
    /// `e[hi:lo]`.
    Slice(Box<Expr>, u32, u32),
    /// `e[lo+:width]` with a `lo` that is not known.
    PlusSlice(Box<Expr>, Box<Expr>, u32),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands, of the same type but for shifts and concatenation.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// To the expression's type.
    Cast(Box<Expr>),
    /// A struct, header (which becomes valid), tuple, list or stack, by position.
    Aggregate(Vec<Expr>),
    /// The same of a struct or header, whose fields are written in another order: by position, and the
    /// positions in the order in which they are written.
    Reordered(Vec<Expr>, Vec<usize>),
    /// An invalid header or union.
    Invalid,
    /// An instance.
    Instance(InstanceId),
    /// An instance without a name, as an argument.
    Construct(Box<Construct>),
    /// A call.
    Call(Box<Call>),
    /// `t.apply().hit`, `.miss`, `.action_run`.
    TableField(Box<Expr>, TableField),
    /// Everything.
    Any,
    /// `a &&& b`.
    Mask(Box<Expr>, Box<Expr>),
    /// `a .. b`.
    Range(Box<Expr>, Box<Expr>),
    /// One set for each key.
    SetTuple(Vec<Expr>),
    /// A value set.
    ValueSet(ValueSetId),
    /// `this`.
    This,
    /// A mistake told already.
    Bad,
}

/// What a table's application tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TableField {
    Hit,
    Miss,
    ActionRun,
}

/// The construction of an object.
#[derive(Clone, Debug)]
pub struct Construct {
    /// Of this type.
    pub ty: TyId,
    /// Constructor among those of the extern; 0 of others.
    pub constructor: usize,
    /// In the order of the parameters; `None` for an optional one left out.
    pub args: Vec<Option<Expr>>,
}

/// Methods of headers and stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Builtin {
    IsValid,
    SetValid,
    SetInvalid,
    PushFront,
    PopFront,
}

/// What is called.
#[derive(Clone, Debug)]
pub enum Callee {
    /// A function.
    Function(FunctionId),
    /// A method of an extern: the object, and which.
    Method(Expr, ExternId, usize),
    /// An action.
    Action(ActionId),
    /// A parser or control.
    Apply(Expr, ApplyId),
    /// A table.
    Table(TableId),
    /// A method of a header or stack.
    Builtin(Expr, Builtin),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// What.
    pub callee: Callee,
    /// What the type parameters of function or method are.
    pub type_args: Vec<TyId>,
    /// In the order of the parameters; `None` for `_` and for optional ones left out.
    pub args: Vec<Option<Expr>>,
    /// Places in `args` in the order in which they are written; empty if that is the same.
    pub order: Vec<usize>,
}

impl Call {
    /// Places in `args` in the order in which they are evaluated (§6.8).
    pub fn written(&self) -> Vec<usize> {
        written(&self.order, self.args.len())
    }
}

/// So many places, those of `order` first.
fn written(order: &[usize], count: usize) -> Vec<usize> {
    let rest = (0..count).filter(|i| !order.contains(i));
    order.iter().copied().chain(rest).collect()
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name.
    pub name: Name,
    /// Type.
    pub ty: TyId,
    /// Direction.
    pub direction: Direction,
    /// Where.
    pub span: Span,
    /// It may be left out.
    pub optional: bool,
    /// What it is if left out.
    pub default: Option<Expr>,
    /// Its variable inside.
    pub var: VarId,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VarKind {
    /// Declared by a statement or in a parser or control.
    Local,
    /// A parameter.
    Param(Direction),
    /// A constructor parameter: known when the object is made.
    Constructor,
    /// The variable of a `for ... in`.
    Loop,
    /// A constant that is known only when an object is made.
    Const,
}

/// A variable.
#[derive(Clone, Debug)]
pub struct Var {
    /// Name.
    pub name: Name,
    /// Type.
    pub ty: TyId,
    /// Where.
    pub span: Span,
    /// What it is.
    pub kind: VarKind,
}

/// An enumeration.
#[derive(Clone, Debug)]
pub struct Enum {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Representation, if it is serializable.
    pub repr: Option<TyId>,
    /// Members and, if serializable, their values.
    pub members: Vec<(Name, Option<BigInt>)>,
}

/// A field.
#[derive(Clone, Debug)]
pub struct Field {
    /// Name.
    pub name: Name,
    /// Type, in terms of the struct's type parameters.
    pub ty: TyId,
    /// Where.
    pub span: Span,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A struct, header or union.
#[derive(Clone, Debug)]
pub struct Struct {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Which.
    pub kind: StructKind,
    /// Type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Fields.
    pub fields: Vec<Field>,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A `type`.
#[derive(Clone, Debug)]
pub struct Newtype {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// What it is made of.
    pub base: TyId,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A function's face.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Parameters.
    pub params: Vec<Param>,
    /// Result; `None` of a constructor.
    pub result: Option<TyId>,
    /// The instance must define it.
    pub is_abstract: bool,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// An extern object's type.
#[derive(Clone, Debug)]
pub struct Extern {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Constructors and methods.
    pub methods: Vec<Signature>,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A function; without a body, an extern one.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its face.
    pub signature: Signature,
    /// Its body.
    pub body: Option<Vec<Stmt>>,
}

/// An action.
#[derive(Clone, Debug)]
pub struct Action {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Parameters; those without direction are the control plane's.
    pub params: Vec<Param>,
    /// Body.
    pub body: Vec<Stmt>,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A parser or control.
#[derive(Clone, Debug)]
pub struct Applicable {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// It is a parser.
    pub is_parser: bool,
    /// Type parameters (of types only).
    pub type_params: Vec<TypeVarId>,
    /// Parameters of `apply`.
    pub params: Vec<Param>,
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// Its inside; none of a type.
    pub body: Option<Body>,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// The inside of a parser or control.
#[derive(Clone, Debug, Default)]
pub struct Body {
    /// Variables and instances in order.
    pub locals: Vec<Stmt>,
    /// Tables of a control.
    pub tables: Vec<TableId>,
    /// Actions of a control.
    pub actions: Vec<ActionId>,
    /// States of a parser; `start` among them.
    pub states: Vec<State>,
    /// What a control does.
    pub apply: Vec<Stmt>,
}

/// Where a state goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Parsing is done.
    Accept,
    /// Parsing failed.
    Reject,
    /// To this state of the parser.
    State(usize),
}

/// How a state ends.
#[derive(Clone, Debug)]
pub enum Transition {
    /// To one state.
    To(Target),
    /// By values: the first case all of whose sets hold.
    Select(Vec<Expr>, Vec<(Vec<Expr>, Target)>),
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Statements.
    pub stmts: Vec<Stmt>,
    /// The end.
    pub transition: Transition,
}

/// A package type.
#[derive(Clone, Debug)]
pub struct Package {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Type parameters.
    pub type_params: Vec<TypeVarId>,
    /// Parameters.
    pub params: Vec<Param>,
}

/// An instance with a name.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// How it is made.
    pub construct: Construct,
    /// Functions that it defines.
    pub functions: Vec<FunctionId>,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A value set.
#[derive(Clone, Debug)]
pub struct ValueSet {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Type of its members.
    pub ty: TyId,
    /// Greatest number of members.
    pub size: Expr,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Key {
    /// The value.
    pub expr: Expr,
    /// Its text, which is its name unless `@name` says another.
    pub text: String,
    /// The match kind, by place.
    pub kind: u32,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// An action with arguments: those with a direction, and for defaults and entries the rest.
#[derive(Clone, Debug)]
pub struct ActionCall {
    /// Which.
    pub action: ActionId,
    /// In the order of the parameters; `None` is the control plane's.
    pub args: Vec<Option<Expr>>,
    /// Places in `args` in the order in which they are written; empty if that is the same.
    pub order: Vec<usize>,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
    /// Where.
    pub span: Span,
}

impl ActionCall {
    /// Places in `args` in the order in which they are evaluated (§6.8).
    pub fn written(&self) -> Vec<usize> {
        written(&self.order, self.args.len())
    }
}

/// An entry written in the program.
#[derive(Clone, Debug)]
pub struct Entry {
    /// It cannot be changed.
    pub is_const: bool,
    /// Its priority, if it says one.
    pub priority: Option<BigInt>,
    /// What `@priority(n)` says, where smaller numbers win.
    pub annotated_priority: Option<u32>,
    /// One set for each key.
    pub keys: Vec<Expr>,
    /// What it does.
    pub action: ActionCall,
    /// Where.
    pub span: Span,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name.
    pub name: Name,
    /// Where.
    pub span: Span,
    /// Keys.
    pub keys: Vec<Key>,
    /// Actions.
    pub actions: Vec<ActionCall>,
    /// Default action; `NoAction` if none is written.
    pub default: Option<ActionCall>,
    /// The default cannot be changed.
    pub default_const: bool,
    /// Entries.
    pub entries: Vec<Entry>,
    /// `const entries`.
    pub entries_const: bool,
    /// `size`.
    pub size: Option<Expr>,
    /// Larger priorities win (the default).
    pub largest_priority_wins: bool,
    /// What entries without a priority count down or up by.
    pub priority_delta: u32,
    /// Other properties, as the architecture has them.
    pub properties: Vec<Property>,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// A property of a table that the language knows nothing of.
#[derive(Clone, Debug)]
pub struct Property {
    /// Its name.
    pub name: Name,
    /// Its value.
    pub value: Expr,
    /// Annotations.
    pub annotations: Rc<[Annotation]>,
}

/// What a `for ... in` runs over.
#[derive(Clone, Debug)]
pub enum ForSet {
    /// Both ends included.
    Range(Expr, Expr),
    /// A list, tuple or stack.
    Expr(Expr),
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What.
    pub kind: StmtKind,
    /// Where.
    pub span: Span,
}

/// Kinds of statements.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `l = r`.
    Assign(Expr, Expr),
    /// A call whose result is not used.
    Call(Expr),
    /// `if`.
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    /// Statements with a scope.
    Block(Vec<Stmt>),
    /// `exit`.
    Exit,
    /// `return`.
    Return(Option<Expr>),
    /// `switch (t.apply().action_run)`: the application, actions and what to do, default.
    SwitchAction(Expr, Vec<(Vec<ActionId>, Vec<Stmt>)>, Option<Vec<Stmt>>),
    /// `switch` on a value.
    Switch(Expr, Vec<(Vec<Expr>, Vec<Stmt>)>, Option<Vec<Stmt>>),
    /// `for (init; condition; update) body`.
    For(Vec<Stmt>, Expr, Vec<Stmt>, Vec<Stmt>),
    /// `for (x in set) body`.
    ForIn(VarId, ForSet, Vec<Stmt>),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// A variable and its value.
    Var(VarId, Option<Expr>),
    /// An instance.
    Instance(InstanceId),
}

/// A program.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "each is the list of what its type says")]
pub struct Program {
    pub types: Types,
    pub enums: Vec<Enum>,
    pub structs: Vec<Struct>,
    pub newtypes: Vec<Newtype>,
    pub externs: Vec<Extern>,
    pub functions: Vec<Function>,
    pub actions: Vec<Action>,
    pub applicables: Vec<Applicable>,
    pub packages: Vec<Package>,
    pub tables: Vec<Table>,
    pub value_sets: Vec<ValueSet>,
    pub vars: Vec<Var>,
    pub instances: Vec<Instance>,
    /// Names of type parameters.
    pub type_vars: Vec<Name>,
    /// Errors, in the order of their declaration.
    pub errors: Vec<Name>,
    /// Match kinds, likewise.
    pub match_kinds: Vec<Name>,
    /// Constants at the top, for annotations, which are not checked.
    pub constants: std::collections::HashMap<Name, Const>,
    /// Instances at the top, in order.
    pub top: Vec<InstanceId>,
    /// How many of a package's type parameters are not written: each `_` is one.
    pub hidden: std::collections::HashMap<PackageId, usize>,
    /// The package called `main`.
    pub main: Option<InstanceId>,
    /// How large it may become.
    pub limits: crate::limits::Limits,
}

impl Program {
    /// A type's shape.
    pub fn ty(&self, id: TyId) -> &Ty {
        self.types.get(id)
    }

    /// A struct's field types with the type parameters replaced.
    pub fn field_types(&mut self, id: StructId, args: &[TyId]) -> Vec<TyId> {
        let s = &self.structs[id.index()];
        let vars = s.type_params.clone();
        let types: Vec<TyId> = s.fields.iter().map(|f| f.ty).collect();
        types.into_iter().map(|t| self.types.substitute(t, &vars, args)).collect()
    }

    /// A type as a program would write it.
    pub fn show(&self, id: TyId) -> String {
        let list =
            |args: &[TyId]| args.iter().map(|a| self.show(*a)).collect::<Vec<_>>().join(", ");
        let with = |name: &str, args: &[TyId]| {
            if args.is_empty() { name.to_string() } else { format!("{name}<{}>", list(args)) }
        };
        match self.ty(id) {
            Ty::Bad => "(unknown)".into(),
            Ty::Void => "void".into(),
            Ty::Bool => "bool".into(),
            Ty::String => "string".into(),
            Ty::Int => "int".into(),
            Ty::Error => "error".into(),
            Ty::MatchKind => "match_kind".into(),
            Ty::Bit(w) => format!("bit<{w}>"),
            Ty::Signed(w) => format!("int<{w}>"),
            Ty::Varbit(w) => format!("varbit<{w}>"),
            Ty::Enum(e) => self.enums[e.index()].name.to_string(),
            Ty::Struct(s, args) => with(&self.structs[s.index()].name, args),
            Ty::Stack(e, n) => format!("{}[{n}]", self.show(*e)),
            Ty::Tuple(args) => format!("tuple<{}>", list(args)),
            Ty::List(e) => format!("list<{}>", self.show(*e)),
            Ty::New(n) => self.newtypes[n.index()].name.to_string(),
            Ty::Extern(e, args) => with(&self.externs[e.index()].name, args),
            Ty::Apply(e, args) => with(&self.applicables[e.index()].name, args),
            Ty::Package(e, args) => with(&self.packages[e.index()].name, args),
            Ty::Var(v) => self.type_vars[v.index()].to_string(),
            Ty::Infer(_) => "_".into(),
            Ty::Literal(None, args, _) => format!("{{{}}}", list(args)),
            Ty::Literal(Some(names), args, _) => {
                let fields = names.iter().zip(args.iter());
                let fields = fields.map(|(n, a)| format!("{n} = {}", self.show(*a)));
                format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
            }
            Ty::Dots => "...".into(),
            Ty::Invalid => "{#}".into(),
            Ty::Set(e) => format!("set of {}", self.show(*e)),
            Ty::TableResult(t) => format!("result of {}.apply()", self.tables[t.index()].name),
            Ty::ActionRun(t) => format!("action of {}", self.tables[t.index()].name),
        }
    }
}

/// The text of an annotation like `@name("text")`, if there is one with this name.
pub fn annotation_text<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a str> {
    use crate::ast::{AnnotationBody, ExprKind as E};
    annotations.iter().filter(|a| &*a.name.name == name).find_map(|a| match &a.body {
        AnnotationBody::Tokens(tokens) => tokens.iter().find_map(|t| match &t.tok {
            Tok::Str(s) => Some(&**s),
            _ => None,
        }),
        AnnotationBody::Exprs(exprs) => exprs.iter().find_map(|e| match &e.kind {
            E::Str(s) => Some(&**s),
            _ => None,
        }),
        _ => None,
    })
}

/// There is an annotation with this name.
pub fn annotated(annotations: &[Annotation], name: &str) -> bool {
    annotations.iter().any(|a| &*a.name.name == name)
}

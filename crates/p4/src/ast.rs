//! The syntax tree: what was written, nothing resolved.
//!
//! It follows the grammar of specification 1.2.5 (appendix G); names are text, types and expressions
//! are told apart only where the grammar does. Every node knows its span. `check` turns it into the
//! typed tree (`hir`).

pub use crate::lex::Name;
use crate::lex::Token;
use crate::source::Span;
use num_bigint::BigInt;

/// A name and where it stands.
#[derive(Clone, Debug)]
pub struct Ident {
    /// The name.
    pub name: Name,
    /// Where.
    pub span: Span,
}

/// A name that may begin with a dot, which looks it up at the top.
#[derive(Clone, Debug)]
pub struct Path {
    /// It began with a dot.
    pub top: bool,
    /// The name.
    pub ident: Ident,
}

/// `@name`, `@name(tokens)`, `@name[...]`.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Its name.
    pub name: Ident,
    /// What it holds.
    pub body: AnnotationBody,
}

/// What an annotation holds.
#[derive(Clone, Debug)]
pub enum AnnotationBody {
    /// Nothing.
    Empty,
    /// Any balanced tokens.
    Tokens(Vec<Token>),
    /// Structured: expressions.
    Exprs(Vec<Expr>),
    /// Structured: keys and values.
    Pairs(Vec<(Ident, Expr)>),
}

/// A type as written.
#[derive(Clone, Debug)]
pub struct Type {
    /// What.
    pub kind: TypeKind,
    /// Where.
    pub span: Span,
}

/// Kinds of types as written.
#[derive(Clone, Debug)]
pub enum TypeKind {
    /// `bool`.
    Bool,
    /// `error`.
    Error,
    /// `match_kind`.
    MatchKind,
    /// `string`.
    String,
    /// `void`.
    Void,
    /// `int`.
    Int,
    /// `bit<w>`; `bit` alone is one bit.
    Bit(Option<Box<Expr>>),
    /// `int<w>`.
    SignedInt(Box<Expr>),
    /// `varbit<w>`.
    Varbit(Box<Expr>),
    /// A name, perhaps with arguments.
    Named(Path, Vec<Type>),
    /// `T[n]`.
    Stack(Box<Type>, Box<Expr>),
    /// `tuple<...>`.
    Tuple(Vec<Type>),
    /// `list<T>`.
    List(Box<Type>),
    /// `_`.
    Dontcare,
    /// Could not be read; told already.
    Bad,
}

/// Operators of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum UnaryOp {
    Plus,
    Neg,
    Not,
    LogicalNot,
}

/// Operators of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BinaryOp {
    Mul,
    Div,
    Mod,
    Add,
    Sub,
    AddSat,
    SubSat,
    Shl,
    Shr,
    Le,
    Ge,
    Lt,
    Gt,
    Eq,
    Ne,
    And,
    Xor,
    Or,
    Concat,
    LogicalAnd,
    LogicalOr,
}

impl BinaryOp {
    /// As written.
    pub fn word(self) -> &'static str {
        use BinaryOp::*;
        match self {
            Mul => "*",
            Div => "/",
            Mod => "%",
            Add => "+",
            Sub => "-",
            AddSat => "|+|",
            SubSat => "|-|",
            Shl => "<<",
            Shr => ">>",
            Le => "<=",
            Ge => ">=",
            Lt => "<",
            Gt => ">",
            Eq => "==",
            Ne => "!=",
            And => "&",
            Xor => "^",
            Or => "|",
            Concat => "++",
            LogicalAnd => "&&",
            LogicalOr => "||",
        }
    }
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub struct Arg {
    /// The parameter, if it is given by name.
    pub name: Option<Ident>,
    /// The value; `None` is `_`.
    pub value: Option<Expr>,
    /// Where.
    pub span: Span,
}

/// An expression.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

/// Kinds of expressions.
#[derive(Clone, Debug)]
pub enum ExprKind {
    /// `true`, `false`.
    Bool(bool),
    /// An integer and the width and sign it was written with.
    Int(BigInt, Option<(u32, bool)>),
    /// A string.
    Str(Name),
    /// `this`.
    This,
    /// A name.
    Path(Path),
    /// A type where a value could be: `error.X`, `bit<8>` before a dot, a type with arguments.
    Type(Box<Type>),
    /// `e.name`.
    Member(Box<Expr>, Ident),
    /// `e[i]`.
    Index(Box<Expr>, Box<Expr>),
    /// `e[hi:lo]`.
    Slice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `e[lo+:width]`.
    PlusSlice(Box<Expr>, Box<Expr>, Box<Expr>),
    /// One operand.
    Unary(UnaryOp, Box<Expr>),
    /// Two operands.
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? a : b`.
    Mux(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(T) e`.
    Cast(Box<Type>, Box<Expr>),
    /// `f<T>(args)`; of a type, the construction of an object.
    Call(Box<Expr>, Vec<Type>, Vec<Arg>),
    /// `{ a, b, ... }`; the flag says that it ends in `...`.
    List(Vec<Expr>, bool),
    /// `{ x = a, y = b, ... }`.
    Struct(Vec<(Ident, Expr)>, bool),
    /// `...`: the default value.
    Dots,
    /// `{#}`: an invalid header.
    Invalid,
    /// `_` in a set.
    Dontcare,
    /// `default` in a set.
    Default,
    /// `a &&& b`.
    Mask(Box<Expr>, Box<Expr>),
    /// `a .. b`.
    Range(Box<Expr>, Box<Expr>),
    /// `(a, b)` in a set.
    SetTuple(Vec<Expr>),
    /// Could not be read; told already.
    Bad,
}

/// A parameter's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Direction {
    None,
    In,
    Out,
    InOut,
}

impl Direction {
    /// As written, with a space after it.
    pub fn word(self) -> &'static str {
        match self {
            Direction::None => "",
            Direction::In => "in ",
            Direction::Out => "out ",
            Direction::InOut => "inout ",
        }
    }
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Param {
    /// `@optional` and others.
    pub annotations: Vec<Annotation>,
    /// Direction.
    pub direction: Direction,
    /// Type.
    pub ty: Type,
    /// Name.
    pub name: Ident,
    /// Default value.
    pub default: Option<Expr>,
}

/// A statement.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What.
    pub kind: StmtKind,
    /// Where.
    pub span: Span,
}

/// One label of a switch.
#[derive(Clone, Debug)]
pub enum Label {
    /// `default`.
    Default(Span),
    /// An action's name or a value.
    Value(Expr),
}

/// One case of a switch; without a body, it falls through.
#[derive(Clone, Debug)]
pub struct SwitchCase {
    /// When.
    pub label: Label,
    /// What.
    pub body: Option<Block>,
}

/// Statements in braces.
#[derive(Clone, Debug)]
pub struct Block {
    /// Annotations in front.
    pub annotations: Vec<Annotation>,
    /// Statements.
    pub stmts: Vec<Stmt>,
    /// From brace to brace.
    pub span: Span,
}

/// Kinds of statements.
#[derive(Clone, Debug)]
pub enum StmtKind {
    /// `l = r`, or `l OP= r`.
    Assign(Option<BinaryOp>, Expr, Expr),
    /// A call.
    Call(Expr),
    /// `if`.
    If(Expr, Box<Stmt>, Option<Box<Stmt>>),
    /// `{ ... }`.
    Block(Block),
    /// `;`.
    Empty,
    /// `exit`.
    Exit,
    /// `return`.
    Return(Option<Expr>),
    /// `switch`.
    Switch(Expr, Vec<SwitchCase>),
    /// `for (init; condition; update) body`.
    For(Vec<Stmt>, Expr, Vec<Stmt>, Box<Stmt>),
    /// `for (T x in collection) body`.
    ForIn(Type, Ident, Box<ForSet>, Box<Stmt>),
    /// `break`.
    Break,
    /// `continue`.
    Continue,
    /// A variable, constant or instance.
    Decl(Box<Decl>),
}

/// What a `for ... in` runs over.
#[derive(Clone, Debug)]
pub enum ForSet {
    /// `a .. b`.
    Range(Expr, Expr),
    /// A list or stack.
    Expr(Expr),
}

/// A declaration.
#[derive(Clone, Debug)]
pub struct Decl {
    /// Annotations in front.
    pub annotations: Vec<Annotation>,
    /// What.
    pub kind: DeclKind,
    /// Its name (empty of errors and match kinds).
    pub name: Ident,
    /// All of it.
    pub span: Span,
}

/// A field of a struct, header or union.
#[derive(Clone, Debug)]
pub struct Field {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type.
    pub ty: Type,
    /// Name.
    pub name: Ident,
}

/// What a struct-like type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum StructKind {
    Struct,
    Header,
    Union,
}

impl StructKind {
    /// The keyword.
    pub fn word(self) -> &'static str {
        match self {
            StructKind::Struct => "struct",
            StructKind::Header => "header",
            StructKind::Union => "header_union",
        }
    }
}

/// A function's, method's or constructor's face.
#[derive(Clone, Debug)]
pub struct Prototype {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// What it returns; `None` of a constructor.
    pub result: Option<Type>,
    /// Its name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<Ident>,
    /// Parameters.
    pub params: Vec<Param>,
    /// `abstract`: the instance must define it.
    pub is_abstract: bool,
}

/// A parser state.
#[derive(Clone, Debug)]
pub struct State {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Statements.
    pub stmts: Vec<Stmt>,
    /// Where it goes; `None` is reject.
    pub transition: Option<Transition>,
    /// All of it.
    pub span: Span,
}

/// Where a state goes.
#[derive(Clone, Debug)]
pub enum Transition {
    /// To a state.
    To(Ident),
    /// By values.
    Select(Vec<Expr>, Vec<SelectCase>, Span),
}

/// One case of a select.
#[derive(Clone, Debug)]
pub struct SelectCase {
    /// The set; several in parentheses are a `SetTuple`.
    pub set: Expr,
    /// The state.
    pub state: Ident,
    /// All of it.
    pub span: Span,
}

/// A key of a table.
#[derive(Clone, Debug)]
pub struct Key {
    /// The value.
    pub expr: Expr,
    /// The match kind.
    pub kind: Ident,
    /// Annotations.
    pub annotations: Vec<Annotation>,
}

/// An action in a table's list, or as default or entry: a name with arguments.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// Annotations (`@tableonly`, `@defaultonly`).
    pub annotations: Vec<Annotation>,
    /// The name.
    pub path: Path,
    /// Arguments, if there are parentheses.
    pub args: Option<Vec<Arg>>,
    /// All of it.
    pub span: Span,
}

/// An entry in a table.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `const` in front.
    pub is_const: bool,
    /// `priority = e`.
    pub priority: Option<Expr>,
    /// One set for each key.
    pub keys: Vec<Expr>,
    /// The action.
    pub action: ActionRef,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// All of it.
    pub span: Span,
}

/// A table's property.
#[derive(Clone, Debug)]
pub struct Property {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// `const` in front.
    pub is_const: bool,
    /// Its name.
    pub name: Ident,
    /// Its value.
    pub value: PropertyValue,
}

/// A property's value.
#[derive(Clone, Debug)]
pub enum PropertyValue {
    /// `key = { ... }`.
    Key(Vec<Key>),
    /// `actions = { ... }`.
    Actions(Vec<ActionRef>),
    /// `entries = { ... }`.
    Entries(Vec<Entry>),
    /// Any other.
    Expr(Expr),
}

/// Kinds of declarations.
#[derive(Clone, Debug)]
pub enum DeclKind {
    /// `const T x = e;`.
    Const(Type, Expr),
    /// `T x = e;`.
    Var(Type, Option<Expr>),
    /// `T(args) x = { ... };`.
    Instance(Type, Vec<Arg>, Option<Vec<Decl>>),
    /// `error { ... }`.
    Error(Vec<Ident>),
    /// `match_kind { ... }`.
    MatchKind(Vec<Ident>),
    /// `enum`, with a representation type or not.
    Enum(Option<Type>, Vec<(Ident, Option<Expr>)>),
    /// `struct`, `header`, `header_union`.
    Struct(StructKind, Vec<Ident>, Vec<Field>),
    /// `typedef T x;`.
    Typedef(Type),
    /// `type T x;`.
    Newtype(Type),
    /// `extern x { ... }`.
    Extern(Vec<Ident>, Vec<Prototype>),
    /// `extern T f(...);`.
    ExternFunction(Prototype),
    /// `T f(...) { ... }`.
    Function(Prototype, Block),
    /// `action`.
    Action(Vec<Param>, Block),
    /// `parser` with states, or only its type.
    Parser(Vec<Ident>, Vec<Param>, Option<ParserBody>),
    /// `control` with a body, or only its type.
    Control(Vec<Ident>, Vec<Param>, Option<ControlBody>),
    /// `package`.
    Package(Vec<Ident>, Vec<Param>),
    /// `table`.
    Table(Vec<Property>),
    /// `value_set<T>(size) x;`.
    ValueSet(Type, Expr),
}

/// A parser's inside.
#[derive(Clone, Debug)]
pub struct ParserBody {
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// Local declarations.
    pub locals: Vec<Decl>,
    /// States.
    pub states: Vec<State>,
}

/// A control's inside.
#[derive(Clone, Debug)]
pub struct ControlBody {
    /// Constructor parameters.
    pub ctor_params: Vec<Param>,
    /// Local declarations.
    pub locals: Vec<Decl>,
    /// `apply { ... }`.
    pub apply: Block,
}

//! Index newtypes: one per kind of thing in a program, so that they cannot be mixed up.
//!
//! Their `Display` gives a neutral spelling for messages; the text form prints names instead.

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as `usize`, for the vector that holds the thing.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )*};
}

ids! {
    /// A header type.
    HeaderTypeId = "type";
    /// A header instance (an element of a stack is one, too).
    HeaderId = "hdr";
    /// A field's position in its header type.
    FieldId = "field";
    /// A header stack.
    StackId = "stack";
    /// A header union.
    UnionId = "union";
    /// A metadata field.
    MetaId = "meta";
    /// A parser state.
    ParserStateId = "state";
    /// A parser value set.
    ValueSetId = "value_set";
    /// An action.
    ActionId = "action";
    /// A table.
    TableId = "table";
    /// A control block.
    BlockId = "block";
    /// A register array.
    RegisterId = "register";
    /// A digest (a message to the control plane that is not a packet).
    DigestId = "digest";
    /// A service: what a program calls and does not say itself.
    ServiceId = "service";
    /// A table entry; also the index of its direct counter, so unique over all tables.
    EntryId = "entry";
    /// An indirect counter.
    CounterId = "counter";
    /// A group, numbered by its creator.
    GroupId = "group";
    /// A meter, numbered by its creator.
    MeterId = "meter";
}

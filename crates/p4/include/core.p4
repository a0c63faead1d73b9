// The core library of P4-16 (language specification 1.2.5, appendix D), as millrace has it.

#ifndef _CORE_P4_
#define _CORE_P4_

/// What a parser can go wrong by; programs add errors of their own.
error {
    NoError,               // nothing went wrong
    PacketTooShort,        // the packet ends before what is extracted
    NoMatch,               // no case of a select matched
    StackOutOfBounds,      // a header stack has no such element
    HeaderTooShort,        // a varbit field is too small for what is extracted into it
    ParserTimeout,         // the parser took too many steps
    ParserInvalidArgument  // an argument that the target does not support
}

/// The packet as a parser sees it: read from front to back.
extern packet_in {
    /// Reads a header of fixed width and moves past it.
    void extract<T>(out T hdr);
    /// Reads a header whose varbit field has this many bits, and moves past it.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    /// Reads without moving.
    T lookahead<T>();
    /// Moves on by so many bits.
    void advance(in bit<32> sizeInBits);
    /// The whole packet's length in bytes, where the target knows it.
    bit<32> length();
}

/// The packet as a deparser makes it: written from front to back.
extern packet_out {
    /// Appends a header if it is valid; of a stack or struct, each of its headers in order.
    void emit<T>(in T hdr);
}

/// Goes to the parser's reject state with this error unless the check holds.
extern void verify(in bool check, in error toSignal);

/// Does nothing.
action NoAction() {}

/// How a table compares a key; an architecture adds kinds of its own.
match_kind {
    exact,    // equal
    ternary,  // equal under a mask
    lpm       // equal in the highest bits; the longest prefix wins
}

/// Refuses the program unless the check, known at compile time, holds.
extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif

//! A row: what there is to know about one action.
//!
//! The codecs, the text of flows, the rules and the tests ask a row, and none of them lists actions. An action that has no
//! more than its word, or one number ([`Payload`]), needs no function: text, bytes and random values follow. Any other
//! brings functions of its own, which a check at compile time asks for ([`Row::is_whole`]).
//!
//! An action may hold a list of actions. Functions that need the code of a list are given it: rows import none of it.

use crate::action::{Action, ActionType};
use crate::codec::loss::{Encode, EncodeError};
use crate::codec::reader::{self, Reader};
use crate::codec::writer::Put;
use crate::error::ErrorCode;
use crate::field::FieldId;
use crate::ids::NICIRA;
use crate::syntax::context::Context;
use crate::syntax::piece::{self, Piece, Word};
use crate::syntax::value;
use crate::testing::rng::Rng;
use crate::version::Version;
use std::fmt::{self, Write};
use std::net::Ipv4Addr;

/// What bytes are read as.
pub(crate) type Decoded<T = Action> = reader::Result<T>;
/// What text is read as.
pub(crate) type Parsed<T = Action> = piece::Result<T>;

/// What an action does with a field that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldUse {
    /// Reads it of the packet.
    Reads,
    /// Writes it to the packet.
    Writes,
    /// Names it for an entry that it makes.
    Names,
}

/// How a text is read.
pub(crate) struct Parsing<'c> {
    /// The row's word that it begins with.
    pub(crate) name: &'static str,
    /// What it is read for.
    pub(crate) cx: &'c Context<'c>,
    /// Reads a list of actions.
    pub(crate) list: fn(Piece<'_>, &Context<'_>) -> Parsed<Vec<Action>>,
}

/// How an action is printed.
pub(crate) struct Printing {
    /// As which version has it.
    pub(crate) version: Version,
    /// Prints a list of actions.
    pub(crate) list: fn(&mut dyn Write, &[Action], Version) -> fmt::Result,
}

/// How bytes are read.
pub(crate) struct Decoding {
    /// Of which version.
    pub(crate) version: Version,
    /// Inside of so many `clone`s.
    pub(crate) depth: usize,
    /// Reads a list of actions, inside of so many `clone`s.
    pub(crate) list: fn(Version, &mut Reader<'_>, usize) -> Decoded<Vec<Action>>,
}

/// What writes a list of actions.
pub(crate) type EncodeList<'a> = &'a dyn Fn(&mut Vec<u8>, &[Action]) -> Encode;

/// How a random action is made.
pub(crate) struct Making {
    /// For which version.
    pub(crate) version: Version,
    /// Inside of so many `clone`s.
    pub(crate) depth: usize,
    /// Makes an action, inside of so many `clone`s.
    pub(crate) action: fn(&mut Rng, Version, usize) -> Action,
}

type Parse = fn(&Word<'_>, &Parsing<'_>) -> Parsed;
type Print = fn(&mut dyn Write, &Action, &Printing) -> fmt::Result;
type Decode = fn(u16, &mut Reader<'_>, &Decoding) -> Decoded;
type EncodeOne = fn(&mut Vec<u8>, &Action, EncodeList<'_>) -> Encode;
type Fields = fn(&Action, &mut dyn FnMut(FieldUse, FieldId));
type Arbitrary = fn(&mut Rng, &Making) -> Action;

/// What an action holds.
pub(crate) enum Payload {
    /// Nothing.
    None(fn() -> Action),
    /// One number.
    Number(Number),
    /// Something of its own. The row has functions for it.
    Own,
}

/// An action that holds one number.
pub(crate) struct Number {
    /// Its width. It takes one, two or four bytes.
    pub(crate) bits: u32,
    /// The action of a number.
    pub(crate) make: fn(u32) -> Action,
    /// The number of an action.
    pub(crate) of: fn(&Action) -> u32,
    /// How text has it.
    pub(crate) written: Written,
    /// Which numbers it takes; none for all of its width.
    pub(crate) bound: Option<Bound>,
    /// A random one. Bits beyond the width are cut.
    pub(crate) random: fn(&mut Rng) -> u32,
}

/// How text has a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// `word:1`.
    Decimal,
    /// `word(1)`.
    Parentheses,
    /// `word:0x0001`.
    EtherType,
    /// `word:0.0.0.1`.
    Ipv4,
}

/// Which numbers an action takes.
pub(crate) struct Bound {
    /// Whether this is one.
    pub(crate) takes: fn(u32) -> bool,
    /// What a refusal of bytes calls the number.
    pub(crate) what: &'static str,
    /// What it says is right.
    pub(crate) right: &'static str,
    /// What a refusal of text says is right.
    pub(crate) expected: &'static str,
}

/// All versions.
pub(crate) const ALL: &[Version] = &Version::ALL;
/// 1.0 alone.
pub(crate) const ONLY_10: &[Version] = &[Version::V10];
/// 1.3 and later.
pub(crate) const FROM_13: &[Version] = &[Version::V13, Version::V14, Version::V15];
/// 1.5 alone.
pub(crate) const FROM_15: &[Version] = &[Version::V15];

/// One action.
pub(crate) struct Row {
    /// What refusals call it.
    pub(crate) name: &'static str,
    /// Its type, as table features name it.
    pub(crate) action_type: ActionType,
    /// Its words in flows, each with the first version that has it. The first one is printed.
    pub(crate) words: &'static [(&'static str, Version)],
    /// Nicira's numbers of it. The first one is written, unless it has a function that writes it.
    pub(crate) nicira: &'static [u16],
    /// Its number in 1.0, if it has one and no form of its own there.
    pub(crate) v10: Option<u16>,
    /// What it holds.
    pub(crate) payload: Payload,
    /// Reads its text.
    pub(crate) parse: Option<Parse>,
    /// Prints it.
    pub(crate) print: Option<Print>,
    /// Reads what follows one of Nicira's numbers.
    pub(crate) decode: Option<Decode>,
    /// Writes it from [`head`] on; padding and length follow.
    pub(crate) encode: Option<EncodeOne>,
    /// Shows the fields that it names. Of `clone` and `ct`, what they hold is looked at by itself.
    pub(crate) fields: Fields,
    /// Versions that have it as it is, so that writing and reading it gives the same action.
    pub(crate) versions: &'static [Version],
    /// Makes a random one.
    pub(crate) arbitrary: Option<Arbitrary>,
}

impl Row {
    /// What the row of an extension begins with.
    pub(crate) const EXTENSION: Row = Row {
        name: "",
        action_type: ActionType::Experimenter(NICIRA),
        words: &[],
        nicira: &[],
        v10: None,
        payload: Payload::Own,
        parse: None,
        print: None,
        decode: None,
        encode: None,
        fields: |_, _| {},
        versions: ALL,
        arbitrary: None,
    };

    /// The row of an extension that is a word and nothing else.
    pub(crate) const fn plain(
        words: &'static [(&'static str, Version)],
        nicira: &'static [u16],
        make: fn() -> Action,
    ) -> Row {
        Row { name: words[0].0, words, nicira, payload: Payload::None(make), ..Row::EXTENSION }
    }

    /// Whether it has the functions that its payload asks for.
    pub(crate) const fn is_whole(&self) -> bool {
        let text = self.parse.is_some() && self.print.is_some();
        let bytes = self.nicira.is_empty() || self.decode.is_some() && self.encode.is_some();
        let own = matches!(self.payload, Payload::Own);
        !self.name.is_empty() && (!own || text && bytes && self.arbitrary.is_some())
    }

    /// Whether OpenFlow numbers it, in some version.
    #[inline]
    pub(crate) fn is_standard(&self) -> bool {
        !matches!(self.action_type, ActionType::Experimenter(_))
    }

    /// Whether it is an extension that is known here: Open vSwitch's, or SoftFlow's.
    #[inline]
    pub(crate) fn is_extension(&self) -> bool {
        // An experimenter's action says itself whose it is.
        !self.is_standard() && self.action_type != ActionType::Experimenter(0)
    }

    /// Reads its text.
    #[inline]
    pub(crate) fn parse(&self, word: &Word<'_>, parsing: &Parsing<'_>) -> Parsed {
        match (self.parse, &self.payload) {
            (Some(parse), _) => parse(word, parsing),
            (None, Payload::None(make)) => {
                word.bare()?;
                Ok(make())
            }
            (None, Payload::Number(number)) => number.parse(word.arg()?).map(number.make),
            (None, Payload::Own) => unreachable!("{} has a function that reads it", self.name),
        }
    }

    /// Prints an action of this row.
    #[inline]
    pub(crate) fn print(
        &self,
        out: &mut dyn Write,
        action: &Action,
        printing: &Printing,
    ) -> fmt::Result {
        let word = self.words.first().map_or("", |(word, _)| word);
        match (self.print, &self.payload) {
            (Some(print), _) => print(out, action, printing),
            (None, Payload::None(_)) => out.write_str(word),
            (None, Payload::Number(number)) => number.print(out, word, (number.of)(action)),
            (None, Payload::Own) => unreachable!("{} has a function that prints it", self.name),
        }
    }

    /// Reads what follows one of Nicira's numbers.
    #[inline]
    pub(crate) fn decode(&self, subtype: u16, r: &mut Reader<'_>, of: &Decoding) -> Decoded {
        match (self.decode, &self.payload) {
            (Some(decode), _) => decode(subtype, r, of),
            (None, Payload::None(make)) => {
                r.skip(6)?;
                Ok(make())
            }
            (None, Payload::Number(number)) => number.take_nicira(r).map(number.make),
            (None, Payload::Own) => unreachable!("{} has a function that reads it", self.name),
        }
    }

    /// Writes an action of this row by Nicira's number of it. False if there is none.
    #[inline]
    pub(crate) fn encode(
        &self,
        buf: &mut Vec<u8>,
        action: &Action,
        list: EncodeList<'_>,
    ) -> Result<bool, EncodeError> {
        let start = buf.len();
        match (self.encode, &self.payload, self.nicira) {
            (Some(encode), ..) => encode(buf, action, list)?,
            (None, Payload::None(_), [subtype, ..]) => {
                head(buf, *subtype);
                buf.pad(6);
            }
            (None, Payload::Number(number), [subtype, ..]) => {
                head(buf, *subtype);
                number.put_nicira(buf, (number.of)(action));
            }
            _ => return Ok(false),
        }
        buf.pad_to_8(start);
        buf.patch_length(start + 2, start);
        Ok(true)
    }

    /// Reads what follows OpenFlow's own number and length. None if it has a form of its own.
    #[inline]
    pub(crate) fn take_standard(&self, r: &mut Reader<'_>) -> Option<Decoded> {
        match &self.payload {
            Payload::None(make) => Some(r.skip(4).map(|()| make())),
            Payload::Number(number) => Some(number.take(r).map(number.make)),
            Payload::Own => None,
        }
    }

    /// Writes what follows OpenFlow's own number and length, but for padding. False if it has a form of its own.
    #[inline]
    pub(crate) fn put_standard(&self, buf: &mut Vec<u8>, action: &Action) -> bool {
        match &self.payload {
            Payload::None(_) => buf.pad(4),
            Payload::Number(number) => buf.put_number((number.of)(action).into(), number.bytes()),
            Payload::Own => return false,
        }
        true
    }

    /// A random action.
    pub(crate) fn arbitrary(&self, rng: &mut Rng, making: &Making) -> Action {
        match (self.arbitrary, &self.payload) {
            (Some(arbitrary), _) => arbitrary(rng, making),
            (None, Payload::None(make)) => make(),
            (None, Payload::Number(number)) => {
                (number.make)((number.random)(rng) & u32::MAX >> (32 - number.bits))
            }
            (None, Payload::Own) => unreachable!("{} has a function that makes one", self.name),
        }
    }
}

impl Number {
    /// Of a width, with all numbers of it.
    pub(crate) const fn of_bits(
        bits: u32,
        make: fn(u32) -> Action,
        of: fn(&Action) -> u32,
    ) -> Number {
        Number { bits, make, of, written: Written::Decimal, bound: None, random: Rng::u32 }
    }

    #[inline]
    fn bytes(&self) -> usize {
        match self.bits {
            0..=8 => 1,
            9..=16 => 2,
            _ => 4,
        }
    }

    fn parse(&self, arg: Piece<'_>) -> Parsed<u32> {
        let number = match self.written {
            Written::Ipv4 => value::ipv4(arg)?,
            _ => arg.number(self.bits)? as u32,
        };
        match &self.bound {
            Some(bound) if !(bound.takes)(number) => Err(arg.expected(bound.expected)),
            _ => Ok(number),
        }
    }

    fn print(&self, out: &mut dyn Write, word: &str, number: u32) -> fmt::Result {
        match self.written {
            Written::Decimal => write!(out, "{word}:{number}"),
            Written::Parentheses => write!(out, "{word}({number})"),
            Written::EtherType => write!(out, "{word}:{number:#06x}"),
            Written::Ipv4 => write!(out, "{word}:{}", Ipv4Addr::from(number)),
        }
    }

    /// Reads it where it comes first, with the padding behind it.
    #[inline]
    fn take(&self, r: &mut Reader<'_>) -> Decoded<u32> {
        let bytes = self.bytes();
        let number = r.number(bytes)? as u32;
        r.skip(4 - bytes)?;
        self.bounded(r, number)
    }

    #[inline]
    fn bounded(&self, r: &Reader<'_>, number: u32) -> Decoded<u32> {
        match &self.bound {
            Some(bound) if !(bound.takes)(number) => {
                Err(r.bad_value(ErrorCode::BacBadArgument, bound.what, number, bound.right))
            }
            _ => Ok(number),
        }
    }

    /// Reads it behind one of Nicira's numbers, where four bytes are aligned.
    #[inline]
    fn take_nicira(&self, r: &mut Reader<'_>) -> Decoded<u32> {
        let bytes = self.bytes();
        if bytes == 4 {
            r.skip(2)?;
            let number = r.u32()?;
            return self.bounded(r, number);
        }
        let number = r.number(bytes)? as u32;
        r.skip(6 - bytes)?;
        self.bounded(r, number)
    }

    #[inline]
    fn put_nicira(&self, buf: &mut Vec<u8>, number: u32) {
        let bytes = self.bytes();
        if bytes == 4 {
            buf.pad(2);
        }
        buf.put_number(number.into(), bytes);
    }
}

/// The head of one of Nicira's actions.
pub(crate) fn head(buf: &mut Vec<u8>, subtype: u16) {
    buf.put_u16(0xffff);
    buf.put_u16(0);
    buf.put_u32(NICIRA);
    buf.put_u16(subtype);
}

/// A row is asked about an action of its own only.
#[cold]
pub(crate) fn foreign(action: &Action) -> ! {
    unreachable!("another action's row was asked about {action:?}")
}

/// The value that an action holds, of a row's own action.
macro_rules! payload {
    ($pattern:pat => $value:expr) => {
        |action: &$crate::action::Action| match action {
            $pattern => $value,
            other => $crate::actions::row::foreign(other),
        }
    };
}
pub(crate) use payload;

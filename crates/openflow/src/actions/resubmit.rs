//! Nicira's `resubmit`: looks the packet up in a table as if it came in by a port.

use super::row::{Row, foreign, head};
use crate::action::Action;
use crate::codec::writer::Put;
use crate::ids::{PortNo, TableId};
use crate::syntax::context::Context;
use crate::syntax::piece::{Piece, Result, Word};
use crate::version::Version;

pub(super) static RESUBMIT: Row = Row {
    name: "resubmit",
    words: &[("resubmit", Version::V10)],
    nicira: &[1, 14, 44],
    parse: Some(|word, parsing| parse(word, parsing.cx)),
    print: Some(|out, action, _| {
        let Action::Resubmit { in_port, table, ct } = action else { foreign(action) };
        let other = *in_port != PortNo::IN_PORT;
        if other && *table == TableId::ALL && !ct {
            return write!(out, "resubmit:{in_port}");
        }
        out.write_str("resubmit(")?;
        if other {
            write!(out, "{in_port}")?;
        }
        out.write_char(',')?;
        if *table != TableId::ALL {
            write!(out, "{table}")?;
        }
        out.write_str(if *ct { ",ct)" } else { ")" })
    }),
    decode: Some(|subtype, r, _| {
        let in_port = PortNo::from_v10(r.u16()?);
        if subtype == 1 {
            r.skip(4)?;
            return Ok(Action::Resubmit { in_port, table: TableId::ALL, ct: false });
        }
        let table = TableId(r.u8()?);
        r.skip(3)?;
        Ok(Action::Resubmit { in_port, table, ct: subtype == 44 })
    }),
    encode: Some(|buf, action, _| {
        let Action::Resubmit { in_port, table, ct } = action else { foreign(action) };
        let plain = *table == TableId::ALL && !ct;
        head(buf, if plain { 1 } else { 14 + 30 * u16::from(*ct) });
        buf.put_u16(in_port.to_v10().unwrap_or(0xfff8));
        buf.put_u8(if plain { 0 } else { table.0 });
        buf.pad(3);
        Ok(())
    }),
    arbitrary: Some(|rng, _| Action::Resubmit {
        in_port: rng.choose(&[PortNo(3), PortNo::IN_PORT]),
        table: TableId(rng.u8()),
        ct: rng.one_in(2),
    }),
    ..Row::EXTENSION
};

/// `resubmit:PORT`, `resubmit(PORT,TABLE)`, `resubmit(PORT,TABLE,ct)`; what is not said may be left out
/// in parentheses.
fn parse(word: &Word<'_>, cx: &Context<'_>) -> Result<Action> {
    let arg = word.arg()?;
    let (port, table) = match arg.split_once(",") {
        Some((port, rest)) => (port.trim(), Some(rest)),
        None => (arg, None),
    };
    let (table, ct) = match table.and_then(|table| table.split_once(",")) {
        Some((table, last)) if last.trim().is("ct") => (Some(table.trim()), true),
        Some((_, last)) => return Err(last.trim().expected("`ct`")),
        None => (table.map(Piece::trim), false),
    };
    let in_port = match port.text {
        "" => PortNo::IN_PORT,
        _ => port.port(cx)?,
    };
    let table = match table {
        Some(table) if !table.text.is_empty() => TableId(table.u8()?),
        _ => TableId::ALL,
    };
    Ok(Action::Resubmit { in_port, table, ct })
}

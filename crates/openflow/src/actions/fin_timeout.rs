//! Nicira's `fin_timeout`: shortens its entry's timeouts from the first TCP FIN or RST on.

use super::row::{Parsed, Row, foreign, head};
use crate::action::Action;
use crate::codec::writer::Put;
use crate::extension::FinTimeout;
use crate::syntax::error::{Fault, nearest};
use crate::syntax::piece::{Word, Words};
use crate::version::Version;

pub(super) static FIN_TIMEOUT: Row = Row {
    name: "fin_timeout",
    words: &[("fin_timeout", Version::V10)],
    nicira: &[19],
    parse: Some(|word, _| parse(word)),
    print: Some(|out, action, _| {
        let Action::FinTimeout(fin) = action else { foreign(action) };
        let parts = [("idle_timeout", fin.idle_timeout), ("hard_timeout", fin.hard_timeout)];
        let said = parts.iter().filter(|(_, seconds)| *seconds != 0);
        let said: Vec<_> = said.map(|(name, n)| format!("{name}={n}")).collect();
        write!(out, "fin_timeout({})", said.join(","))
    }),
    decode: Some(|_, r, _| {
        let fin = FinTimeout { idle_timeout: r.u16()?, hard_timeout: r.u16()? };
        r.skip(2)?;
        Ok(Action::FinTimeout(fin))
    }),
    encode: Some(|buf, action, _| {
        let Action::FinTimeout(fin) = action else { foreign(action) };
        head(buf, 19);
        buf.put_u16(fin.idle_timeout);
        buf.put_u16(fin.hard_timeout);
        buf.pad(2);
        Ok(())
    }),
    arbitrary: Some(|rng, _| {
        Action::FinTimeout(FinTimeout { idle_timeout: rng.u16(), hard_timeout: rng.u16() })
    }),
    ..Row::EXTENSION
};

/// `fin_timeout(idle_timeout=N,hard_timeout=N)`, either or both.
fn parse(word: &Word<'_>) -> Parsed {
    let mut fin = FinTimeout::default();
    let Some(options) = word.value else {
        let right = "`fin_timeout(idle_timeout=SECONDS,hard_timeout=SECONDS)`";
        return Err(word.key.expected(right));
    };
    let mut words = Words::of(options);
    while let Some(option) = words.next()? {
        match option.key.text {
            "idle_timeout" => fin.idle_timeout = option.arg()?.u16()?,
            "hard_timeout" => fin.hard_timeout = option.arg()?.u16()?,
            name => {
                let nearest = nearest(name, ["idle_timeout", "hard_timeout"]);
                let fault = Fault::Unknown { what: "option of `fin_timeout`", nearest };
                return Err(option.key.error(fault));
            }
        }
    }
    Ok(Action::FinTimeout(fin))
}

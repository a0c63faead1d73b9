//! `trace`, `stats`, `explain`, `dump`: looks into a running switch by its control socket, or into files.

use crate::cli::{DumpOptions, ExplainOptions, QueryOptions, Source, TraceOptions};
use crate::show::show;
use control::client::ask;
use control::failure::Failure;
use control::program::{host, tables};
use control::protocol::Reply;
use control::verb::{At, Verb};
use control::verbs::dump::Dump;
use control::verbs::explain::Explain;
use control::verbs::stats::Stats;
use control::verbs::trace::{self, Trace};
use serde_json::Value;
use std::time::{Duration, Instant};
use switch::Switch;

/// An engine comes to rest within so long, or is asked as it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks whether it has.
const PAUSE: Duration = Duration::from_millis(2);

/// `millrace stats`.
pub(crate) fn stats(options: QueryOptions) -> Result<(), Failure> {
    let value = ask(options.to.whom(), &Stats {})?;
    show::<Stats>(value, options.json)
}

/// `millrace explain`.
pub(crate) fn explain(options: ExplainOptions) -> Result<(), Failure> {
    let mut value = look(&options.source, Explain {})?;
    if let (Some(name), Some(tables)) = (&options.table, value["tables"].as_array_mut()) {
        tables.retain(|t| t["table"] == **name);
        if tables.is_empty() {
            return Err(Failure::Bad(format!("table {name} has no entries, or does not exist")));
        }
        value["packets"] = Value::Null;
    }
    show::<Explain>(value, options.json)
}

/// `millrace dump`.
pub(crate) fn dump(options: DumpOptions) -> Result<(), Failure> {
    let stage = options.stage.word().to_string();
    let value = look(&options.source, Dump { stage })?;
    show::<Dump>(value, options.json)
}

/// A switch made of the files that are named, if any are.
fn offline(source: &Source) -> Result<Option<Switch>, Failure> {
    if let Some(p4) = &source.p4 {
        return host::offline(p4, source.entries.as_deref()).map(Some);
    }
    if source.flows.is_empty() && source.groups.is_empty() && source.meters.is_empty() {
        return Ok(None);
    }
    tables::offline(&source.flows, &source.groups, &source.meters).map(Some)
}

/// Asks a running switch or, if files are named, one that is made of them.
fn look<V: Verb>(source: &Source, question: V) -> Result<Value, Failure> {
    let Some(switch) = offline(source)? else {
        return ask(source.whom(), &question);
    };
    rest(&switch);
    let answered = question.answer(&At::alone(&switch));
    switch.stop();
    let (Reply::Answer(answer) | Reply::Stream(answer, _)) = answered.map_err(Failure::Bad)?;
    serde_json::to_value(&answer).map_err(Failure::bad)
}

/// Waits until the engine has made what it would of the files' entries, as it does of a running switch's; not for ever.
fn rest(switch: &Switch) {
    let until = Instant::now() + PATIENCE;
    while !switch.is_settled() && Instant::now() < until {
        switch.advance();
        std::thread::sleep(PAUSE);
    }
}

/// `millrace trace`.
pub(crate) fn trace(options: TraceOptions) -> Result<(), Failure> {
    let (in_port, bytes) = packet(&options.packet, options.in_port)?;
    let value = match offline(&options.source)? {
        Some(switch) => {
            let answer = trace::trace(&switch, in_port, &bytes);
            switch.stop();
            serde_json::to_value(&answer).map_err(Failure::bad)?
        }
        None => {
            let question = Trace { in_port, packet: trace::digits(&bytes) };
            ask(options.source.whom(), &question)?
        }
    };
    show::<Trace>(value, options.json)
}

/// A packet as users write it: bytes in hexadecimal, or a match that describes it.
fn packet(text: &str, in_port: Option<u32>) -> Result<(u32, Vec<u8>), Failure> {
    if let Some(bytes) = trace::hex(text) {
        return Ok((in_port.unwrap_or(1), bytes));
    }
    let described = openflow::syntax::parse_packet(text).map_err(|e| {
        Failure::Usage(format!("the packet is neither hexadecimal bytes nor a match: {e}"))
    })?;
    Ok((in_port.or(described.in_port).unwrap_or(1), described.bytes))
}

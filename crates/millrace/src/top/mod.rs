//! `millrace top`: what a running switch does, live: ports, flow entries, tables, drops, workers, connections.
//!
//! In: answers of the control socket's verbs, a second apart. Out: a full-screen view with keys, or the same pages as
//! text (`--batch`) for scripts. A page is rows of words ([`pages`]), so that both show the same.
//!
//! | module | holds |
//! |---|---|
//! | [`read`] | what is asked of the switch |
//! | [`pages`] | rows of each page, and rates between two readings |
//! | [`view`] | the screen and its keys |

mod pages;
mod read;
mod view;

use crate::cli::TopOptions;
use control::failure::Failure;
use control::output::say;
pub(crate) use pages::Page;
use pages::Scope;
use read::{Reader, Reading};
use std::io::IsTerminal as _;
use std::time::Duration;

/// `millrace top`.
pub(crate) fn top(options: TopOptions) -> Result<(), Failure> {
    let interval = Duration::from_secs(u64::from(options.interval.get()));
    let reader = Reader::new(options.to.whom());
    let begin = options.page;
    if options.batch.is_none() && !std::io::stdout().is_terminal() {
        return Err(Failure::Bad(
            "`top` fills a terminal, and this is none: --batch 1 prints a page once".to_owned(),
        ));
    }
    match options.batch {
        None => view::show(&reader, begin, interval),
        Some(times) => batch(&reader, begin, interval, times.get()),
    }
}

/// Prints a page so many times, with rates of the interval before each.
fn batch(reader: &Reader<'_>, page: Page, interval: Duration, times: u32) -> Result<(), Failure> {
    let scope = Scope::default();
    let mut before = reader.read(page, &scope)?;
    for n in 0..times {
        std::thread::sleep(interval);
        let now = reader.read(page, &scope)?;
        let blank = if n == 0 { "" } else { "\n" };
        say(format_args!("{blank}{}", text(page, &scope, &before, &now)));
        before = now;
    }
    Ok(())
}

/// A page as text: its head, and columns as wide as their longest word.
fn text(page: Page, scope: &Scope, before: &Reading, now: &Reading) -> String {
    let table = pages::table(page, scope, before, now);
    let mut widths: Vec<usize> = table.columns.iter().map(|column| column.name.len()).collect();
    for row in &table.rows {
        for (width, cell) in widths.iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let last = table.columns.len().saturating_sub(1);
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).zip(&table.columns).enumerate();
        let padded = padded.map(|(at, ((cell, width), column))| match column.left {
            true if at == last => cell.clone(),
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        });
        padded.collect::<Vec<_>>().join("  ") + "\n"
    };
    let names: Vec<String> = table.columns.iter().map(|column| column.name.to_owned()).collect();
    let mut out = pages::head(before, now) + "\n" + &line(&names);
    table.rows.iter().for_each(|row| out += &line(&row.cells));
    if let Some(remark) = table.remark {
        out += &remark;
        out.push('\n');
    }
    out
}

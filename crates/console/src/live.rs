//! The full-screen view: ports, tables, drops, and the rate over the last minute.

use crate::sample::{Rates, Sample, per_second, short};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;
use std::time::Duration;

/// Pause between two drawings.
const INTERVAL: Duration = Duration::from_millis(500);
/// Drawings that the rate's curve remembers.
const HISTORY: usize = 240;

/// Shows samples until `q`, Escape or Ctrl-C, or until `done` says so.
///
/// # Errors
/// What the terminal reports.
pub fn live(
    title: &str,
    read: impl Fn() -> Sample,
    done: impl Fn() -> bool,
) -> std::io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let mut before = read();
    let mut history = VecDeque::new();
    let result = loop {
        let quit = match quit_within(INTERVAL) {
            Ok(quit) => quit,
            Err(error) => break Err(error),
        };
        if quit || done() {
            break Ok(());
        }
        let now = read();
        history.push_back(Rates::between(&before, &now).tx_pps as u64);
        if history.len() > HISTORY {
            history.pop_front();
        }
        if let Err(error) = terminal.draw(|frame| draw(frame, title, &before, &now, &history)) {
            break Err(error);
        }
        before = now;
    };
    ratatui::try_restore()?;
    result
}

/// Waits for a key that ends the view.
fn quit_within(interval: Duration) -> std::io::Result<bool> {
    if !event::poll(interval)? {
        return Ok(false);
    }
    Ok(match event::read()? {
        Event::Key(key) => {
            let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
        }
        _ => false,
    })
}

fn draw(frame: &mut Frame<'_>, title: &str, before: &Sample, now: &Sample, history: &VecDeque<u64>) {
    let ports = now.ports.len() as u16 + 3;
    let [head, port_area, middle, curve] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(ports),
        Constraint::Min(6),
        Constraint::Length(8),
    ])
    .areas(frame.area());
    let [table_area, drop_area] =
        Layout::horizontal([Constraint::Percentage(60), Constraint::Percentage(40)]).areas(middle);
    let r = Rates::between(before, now);
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let summary = format!(
        "engine {}  version {}  in {}pps  out {}pps  {}b/s  dropped {}/s    q quits",
        now.engine, now.version, short(r.rx_pps), short(r.tx_pps), short(r.tx_bps), short(r.drops)
    );
    frame.render_widget(Paragraph::new(vec![Line::styled(title.to_string(), bold), Line::raw(summary)]), head);
    draw_ports(frame, port_area, before, now);
    draw_tables(frame, table_area, before, now);
    draw_drops(frame, drop_area, before, now);
    let rates: Vec<u64> = history.iter().copied().collect();
    let peak = short(rates.iter().copied().max().unwrap_or(0) as f64);
    let block = Block::bordered().title(format!("out, packets per second (peak {peak})"));
    frame.render_widget(Sparkline::default().block(block).data(rates), curve);
}

fn header<const N: usize>(names: [&'static str; N]) -> Row<'static> {
    Row::new(names.map(Cell::from)).style(Style::new().add_modifier(Modifier::BOLD))
}

fn draw_ports(frame: &mut Frame<'_>, area: Rect, before: &Sample, now: &Sample) {
    let rows = now.ports.iter().map(|p| {
        let old = before.ports.iter().find(|o| o.number == p.number).cloned().unwrap_or_default();
        let rate = |a, b| short(per_second(before, now, a, b));
        Row::new([
            p.number.to_string(),
            p.name.clone(),
            if p.up { "up" } else { "down" }.to_string(),
            rate(old.rx_packets, p.rx_packets),
            rate(old.tx_packets, p.tx_packets),
            format!("{}b/s", short(8.0 * per_second(before, now, old.tx_bytes, p.tx_bytes))),
            p.rx_packets.to_string(),
            p.tx_packets.to_string(),
        ])
    });
    let widths = [6, 16, 6, 10, 10, 12, 14, 14].map(Constraint::Length);
    let table = Table::new(rows, widths)
        .header(header(["port", "name", "link", "in pps", "out pps", "out", "in", "out"]))
        .block(Block::bordered().title("ports"));
    frame.render_widget(table, area);
}

fn draw_tables(frame: &mut Frame<'_>, area: Rect, before: &Sample, now: &Sample) {
    let rows = now.tables.iter().map(|t| {
        let old = before.tables.iter().find(|o| o.name == t.name).cloned().unwrap_or_default();
        let misses = |t: &crate::sample::Table| t.lookups.saturating_sub(t.matches);
        Row::new([
            t.name.clone(),
            t.entries.to_string(),
            short(per_second(before, now, old.lookups, t.lookups)),
            short(per_second(before, now, misses(&old), misses(t))),
        ])
    });
    let widths = [16, 10, 12, 12].map(Constraint::Length);
    let table = Table::new(rows, widths)
        .header(header(["table", "entries", "lookups/s", "misses/s"]))
        .block(Block::bordered().title("tables"));
    frame.render_widget(table, area);
}

fn draw_drops(frame: &mut Frame<'_>, area: Rect, before: &Sample, now: &Sample) {
    let rows = now.drops.iter().map(|(reason, n)| {
        let old = before.drops.get(reason).copied().unwrap_or(0);
        Row::new([(*reason).to_string(), short(per_second(before, now, old, *n)), n.to_string()])
    });
    let widths = [Constraint::Min(18), Constraint::Length(9), Constraint::Length(12)];
    let table = Table::new(rows, widths)
        .header(header(["reason", "per s", "in all"]))
        .block(Block::bordered().title("drops"));
    frame.render_widget(table, area);
}

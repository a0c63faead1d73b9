//! The full-screen view: ports, tables, drops, notes, and the rate over the last minutes.
//!
//! What there is no room for gives way in this order: the curve, tables that are looked up least,
//! notes. Nothing is cut in the middle of a number on 80 columns.

use crate::border::bordered;
use crate::sample::{Rates, Sample, per_second, short};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Pause between two drawings.
const INTERVAL: Duration = Duration::from_millis(500);
/// Drawings that the rate's curve remembers.
const HISTORY: usize = 400;
/// Lines of the curve with its border, at least and at most.
const CURVE: (u16, u16) = (5, 12);
/// Lines of tables and drops with border and header, at least.
const MIDDLE_MIN: u16 = 4;

/// Shows samples until `q`, Escape or Ctrl-C, or until `done` says so. `notes` are lines of the
/// caller's own.
///
/// # Errors
/// What the terminal reports.
pub fn live(
    title: &str,
    read: impl Fn() -> Sample,
    notes: impl Fn() -> Vec<String>,
    done: impl Fn() -> bool,
) -> std::io::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let mut view =
        View { title, before: read(), now: read(), history: VecDeque::new(), notes: notes() };
    let result = loop {
        if let Err(error) = terminal.draw(|frame| view.draw(frame)) {
            break Err(error);
        }
        match quit_within(INTERVAL, &done) {
            Ok(true) => break Ok(()),
            Ok(false) => view.advance(read(), notes()),
            Err(error) => break Err(error),
        }
    };
    ratatui::try_restore()?;
    result
}

/// Waits; true once a key ends the view, or `done` does. Other keys do not shorten the wait.
fn quit_within(interval: Duration, done: impl Fn() -> bool) -> std::io::Result<bool> {
    let until = Instant::now() + interval;
    loop {
        if done() {
            return Ok(true);
        }
        let left = until.saturating_duration_since(Instant::now());
        if !event::poll(left)? {
            return Ok(done());
        }
        match event::read()? {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                let interrupt =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return Ok(true);
                }
            }
            // Draw at once in the new size.
            Event::Resize(..) => return Ok(false),
            _ => {}
        }
    }
}

struct View<'a> {
    title: &'a str,
    before: Sample,
    now: Sample,
    history: VecDeque<u64>,
    notes: Vec<String>,
}

/// Lines of each part.
#[derive(Debug, PartialEq, Eq)]
struct Heights {
    ports: u16,
    middle: u16,
    notes: u16,
    curve: u16,
}

/// Shares out `lines` among so many ports, rows of tables or drops, and notes.
fn heights(lines: u16, ports: usize, rows: usize, notes: usize) -> Heights {
    let framed = |n: usize, more: u16| u16::try_from(n).unwrap_or(u16::MAX).saturating_add(more);
    let mut left = lines.saturating_sub(MIDDLE_MIN);
    let mut take = |wanted: u16| {
        let taken = wanted.min(left);
        left -= taken;
        taken
    };
    let ports = take(framed(ports, 3));
    let notes = take(if notes == 0 { 0 } else { framed(notes, 2) });
    let curve = take(CURVE.0);
    let curve_fits = curve == CURVE.0;
    let more_middle = take(framed(rows, 3).saturating_sub(MIDDLE_MIN));
    let curve = if curve_fits { curve + take(CURVE.1 - CURVE.0) } else { 0 };
    let middle = lines - ports - notes - curve;
    debug_assert!(middle >= more_middle.min(lines));
    Heights { ports, middle, notes, curve }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// A header whose first `left` columns are words, the others numbers.
fn header<const N: usize>(names: [&'static str; N], left: usize) -> Row<'static> {
    let cells = names.into_iter().enumerate().map(|(i, name)| cell(name.to_string(), i < left));
    Row::new(cells).style(bold())
}

fn cell(text: String, left: bool) -> Cell<'static> {
    let alignment = if left { Alignment::Left } else { Alignment::Right };
    Cell::from(Line::raw(text).alignment(alignment))
}

/// A row whose first `left` columns are words; gray when it is all quiet.
fn row<const N: usize>(texts: [String; N], left: usize, busy: bool) -> Row<'static> {
    let style = if busy { Style::new() } else { Style::new().fg(Color::DarkGray) };
    Row::new(texts.into_iter().enumerate().map(|(i, text)| cell(text, i < left))).style(style)
}

impl View<'_> {
    fn advance(&mut self, now: Sample, notes: Vec<String>) {
        self.before = std::mem::replace(&mut self.now, now);
        self.notes = notes;
        self.history.push_back(Rates::between(&self.before, &self.now).tx_pps as u64);
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    fn rate(&self, before: u64, now: u64) -> f64 {
        per_second(&self.before, &self.now, before, now)
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [head, rest] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(0)]).areas(frame.area());
        let rows = self.now.tables.len().max(self.now.drops.len());
        let h = heights(rest.height, self.now.ports.len(), rows, self.notes.len());
        let lengths = [h.ports, h.middle, h.notes, h.curve].map(Constraint::Length);
        let [ports, middle, notes, curve] = Layout::vertical(lengths).areas(rest);
        let halves = [Constraint::Percentage(54), Constraint::Percentage(46)];
        let [tables, drops] = Layout::horizontal(halves).areas(middle);
        self.draw_head(frame, head);
        self.draw_ports(frame, ports);
        self.draw_tables(frame, tables);
        self.draw_drops(frame, drops);
        self.draw_notes(frame, notes);
        self.draw_curve(frame, curve);
    }

    fn draw_head(&self, frame: &mut Frame<'_>, area: Rect) {
        let r = Rates::between(&self.before, &self.now);
        let name = Span::styled("millrace ", bold().fg(Color::Cyan));
        let title = Line::from(vec![name, Span::styled(self.title.to_string(), bold())]);
        let summary = Line::raw(format!(
            "in {}pps  out {}pps  {}b/s  dropped {}/s  engine {}",
            short(r.rx_pps),
            short(r.tx_pps),
            short(r.tx_bps),
            short(r.drops),
            self.now.engine
        ));
        frame.render_widget(Paragraph::new(vec![title, summary]), area);
    }

    fn draw_ports(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.now.ports.iter().map(|p| {
            let old = self
                .before
                .ports
                .iter()
                .find(|o| o.number == p.number)
                .cloned()
                .unwrap_or_default();
            let (rx, tx) =
                (self.rate(old.rx_packets, p.rx_packets), self.rate(old.tx_packets, p.tx_packets));
            let link = if p.up { ("up", Color::Green) } else { ("down", Color::Red) };
            let texts = [
                p.number.to_string(),
                p.name.clone(),
                String::new(),
                short(rx),
                short(tx),
                format!("{}b/s", short(8.0 * self.rate(old.tx_bytes, p.tx_bytes))),
                p.rx_packets.to_string(),
                p.tx_packets.to_string(),
            ];
            let mut cells: Vec<Cell<'_>> =
                texts.into_iter().enumerate().map(|(i, t)| cell(t, i == 1)).collect();
            cells[2] = Cell::from(Span::styled(link.0, Style::new().fg(link.1)));
            Row::new(cells)
        });
        let widths = [4, 0, 4, 8, 8, 10, 11, 11].map(|n| match n {
            0 => Constraint::Min(8),
            n => Constraint::Length(n),
        });
        let names = ["port", "name", "link", "in pps", "out pps", "out", "in, all", "out, all"];
        let mut head: Vec<Cell<'_>> = names
            .iter()
            .enumerate()
            .map(|(i, n)| cell((*n).to_string(), i == 1 || i == 2))
            .collect();
        head[0] = cell("port".to_string(), false);
        let table = Table::new(rows, widths)
            .header(Row::new(head).style(bold()))
            .block(bordered("ports").title(Line::raw("q quits").right_aligned()));
        frame.render_widget(table, area);
    }

    fn draw_tables(&self, frame: &mut Frame<'_>, area: Rect) {
        let room = usize::from(area.height.saturating_sub(3));
        let hidden = self.now.tables.len().saturating_sub(room);
        let old = |name: &str| {
            self.before.tables.iter().find(|o| o.name == name).cloned().unwrap_or_default()
        };
        let mut shown: Vec<_> = self.now.tables.iter().enumerate().collect();
        if hidden > 0 {
            // The busiest, and these in the pipeline's order.
            shown.sort_by_key(|(_, t)| std::cmp::Reverse(t.lookups));
            shown.truncate(room);
            shown.sort_by_key(|(i, _)| *i);
        }
        let rows = shown.into_iter().map(|(_, t)| {
            let old = old(&t.name);
            let misses = |t: &crate::sample::Table| t.lookups.saturating_sub(t.matches);
            let lookups = self.rate(old.lookups, t.lookups);
            let texts = [
                t.name.clone(),
                t.entries.to_string(),
                short(lookups),
                short(self.rate(misses(&old), misses(t))),
            ];
            row(texts, 1, lookups > 0.0)
        });
        let widths = [
            Constraint::Min(10),
            Constraint::Length(7),
            Constraint::Length(9),
            Constraint::Length(8),
        ];
        let version = Line::raw(format!("version {}", self.now.version)).right_aligned();
        let mut border = bordered("tables").title(version);
        if hidden > 0 {
            border = border.title_bottom(format!("{hidden} more"));
        }
        let table = Table::new(rows, widths)
            .header(header(["table", "entries", "lookups/s", "misses/s"], 1))
            .block(border);
        frame.render_widget(table, area);
    }

    fn draw_drops(&self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.now.drops.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| {
            let old = self.before.drops.get(reason).copied().unwrap_or(0);
            let rate = self.rate(old, *n);
            row([(*reason).to_string(), short(rate), n.to_string()], 1, rate > 0.0)
        });
        let widths = [Constraint::Min(14), Constraint::Length(7), Constraint::Length(11)];
        let table = Table::new(rows, widths)
            .header(header(["reason", "per s", "in all"], 1))
            .block(bordered("drops"));
        frame.render_widget(table, area);
    }

    fn draw_notes(&self, frame: &mut Frame<'_>, area: Rect) {
        let lines: Vec<Line<'_>> = self.notes.iter().map(|n| Line::raw(n.as_str())).collect();
        frame.render_widget(Paragraph::new(lines).block(bordered("hosts")), area);
    }

    fn draw_curve(&self, frame: &mut Frame<'_>, area: Rect) {
        // The newest at the right edge.
        let room = usize::from(area.width.saturating_sub(2));
        let skipped = self.history.len().saturating_sub(room);
        let peak = self.history.iter().copied().max().unwrap_or(0);
        let lacking = std::iter::repeat_n(0, room.saturating_sub(self.history.len()));
        let rates: Vec<u64> = lacking.chain(self.history.iter().copied().skip(skipped)).collect();
        let title = format!("out, packets per second; peak {}", short(peak as f64));
        let curve = Sparkline::default()
            .block(bordered(title))
            .style(Style::new().fg(Color::Cyan))
            // A little air above the peak.
            .max(peak + peak / 8 + 1)
            .data(rates);
        frame.render_widget(curve, area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Port, Table};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn sample(seconds: u64) -> Sample {
        let table = |i: u64| Table {
            name: format!("table-{i}"),
            entries: 20,
            lookups: seconds * 100 * i,
            matches: 0,
        };
        let port = |number: u32| Port {
            number,
            name: format!("port-{number}"),
            up: number != 2,
            rx_packets: seconds * 1000,
            tx_packets: seconds * 500,
            tx_bytes: seconds * 50_000,
            ..Port::default()
        };
        Sample {
            at: Instant::now() + Duration::from_secs(seconds),
            engine: "interp",
            version: 7,
            ports: (1..4).map(port).collect(),
            tables: (0..13).map(table).collect(),
            drops: [("table_miss", seconds * 250)].into(),
            punted: 0,
        }
    }

    fn screen(width: u16, height: u16) -> String {
        let mut view = View {
            title: "a test",
            before: sample(0),
            now: sample(0),
            history: VecDeque::new(),
            notes: vec!["a note".to_string()],
        };
        view.advance(sample(1), vec!["a note".to_string()]);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn everything_is_on_a_screen_of_80_by_24() {
        let screen = screen(80, 24);
        for word in [
            "a test",
            "port-3",
            "down",
            "1.5kpps",
            "q quits",
            "version 7",
            "table-12",
            "table_miss",
            "a note",
            "8 more",
            "peak 1.5k",
        ] {
            assert!(screen.contains(word), "{word} is missing:\n{screen}");
        }
        assert!(!screen.contains("table-2 "), "the idlest gives way:\n{screen}");
    }

    #[test]
    fn no_size_is_too_small() {
        for height in 0..30 {
            for width in [0, 1, 5, 20, 79] {
                screen(width.max(1), height.max(1));
            }
        }
    }

    #[test]
    fn lines_are_shared_out_whole() {
        for lines in 0..60 {
            for (ports, rows, notes) in [(0, 0, 0), (2, 13, 1), (6, 3, 7), (1000, 1000, 1000)] {
                let h = heights(lines, ports, rows, notes);
                assert_eq!(h.ports + h.middle + h.notes + h.curve, lines, "{lines} {h:?}");
            }
        }
        assert_eq!(heights(22, 2, 13, 1), Heights { ports: 5, middle: 9, notes: 3, curve: 5 });
        assert_eq!(heights(22, 6, 3, 7), Heights { ports: 9, middle: 4, notes: 9, curve: 0 });
    }
}

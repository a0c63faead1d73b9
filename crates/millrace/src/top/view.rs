//! The screen: a page at a time, and keys that go on from what is marked.

use super::pages::{self, Page, Row, Scope, Table};
use super::read::{Reader, Reading};
use console::bordered;
use control::failure::Failure;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, TableState, Wrap};
use std::time::{Duration, Instant};

/// The widest that a column of words is, but for the last one.
const WIDE: usize = 44;

/// Shows pages until a key ends it. A switch that stops answering ends it, too, with why.
pub(super) fn show(reader: &Reader<'_>, page: Page, interval: Duration) -> Result<(), Failure> {
    let mut view = View::new(page, reader.read(page, &Scope::default())?);
    let mut terminal = ratatui::try_init().map_err(Failure::bad)?;
    let result = run(reader, interval, &mut terminal, &mut view);
    ratatui::try_restore().map_err(Failure::bad)?;
    result
}

fn run(
    reader: &Reader<'_>,
    interval: Duration,
    terminal: &mut ratatui::DefaultTerminal,
    view: &mut View,
) -> Result<(), Failure> {
    let mut due = Instant::now() + interval;
    loop {
        terminal.draw(|frame| view.draw(frame)).map_err(Failure::bad)?;
        let left = due.saturating_duration_since(Instant::now());
        if event::poll(left).map_err(Failure::bad)? {
            let Event::Key(key) = event::read().map_err(Failure::bad)? else { continue };
            match view.key(key) {
                Told::Quit => return Ok(()),
                Told::Nothing => continue,
                // What another page needs was not asked for.
                Told::Read => {}
            }
        }
        if view.paused {
            due = Instant::now() + interval;
            continue;
        }
        view.advance(reader.read(view.page, &view.scope)?);
        due = Instant::now() + interval;
    }
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Read,
    Quit,
}

struct View {
    page: Page,
    scope: Scope,
    /// None until there are two.
    before: Option<Reading>,
    now: Reading,
    marked: usize,
    /// The entry that is shown in full.
    entry: Option<String>,
    paused: bool,
}

impl View {
    fn new(page: Page, now: Reading) -> View {
        let scope = Scope::default();
        View { page, scope, before: None, now, marked: 0, entry: None, paused: false }
    }

    fn advance(&mut self, now: Reading) {
        self.before = Some(std::mem::replace(&mut self.now, now));
    }

    fn table(&self) -> Table {
        let before = self.before.as_ref().unwrap_or(&self.now);
        pages::table(self.page, &self.scope, before, &self.now)
    }

    fn go(&mut self, page: Page, scope: Scope) -> Told {
        (self.page, self.scope, self.marked, self.entry) = (page, scope, 0, None);
        // Rates want two readings of what this page shows.
        self.before = None;
        Told::Read
    }

    fn key(&mut self, key: KeyEvent) -> Told {
        if key.kind == KeyEventKind::Release {
            return Told::Nothing;
        }
        let at = Page::ALL.iter().position(|page| *page == self.page).unwrap_or(0);
        let count = Page::ALL.len();
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Told::Quit,
            KeyCode::Char('q') => Told::Quit,
            KeyCode::Esc if self.entry.take().is_some() => Told::Nothing,
            KeyCode::Esc if self.scope != Scope::default() => self.go(self.page, Scope::default()),
            KeyCode::Esc => Told::Quit,
            KeyCode::Char('p' | ' ') => {
                self.paused = !self.paused;
                Told::Nothing
            }
            KeyCode::Char(digit @ '1'..='6') => {
                self.go(Page::ALL[digit as usize - '1' as usize], Scope::default())
            }
            KeyCode::Tab | KeyCode::Right => self.go(Page::ALL[(at + 1) % count], Scope::default()),
            KeyCode::BackTab | KeyCode::Left => {
                self.go(Page::ALL[(at + count - 1) % count], Scope::default())
            }
            KeyCode::Up | KeyCode::Char('k') => {
                self.marked = self.marked.saturating_sub(1);
                Told::Nothing
            }
            KeyCode::Down | KeyCode::Char('j') => {
                self.marked += 1;
                Told::Nothing
            }
            KeyCode::PageUp => {
                self.marked = self.marked.saturating_sub(20);
                Told::Nothing
            }
            KeyCode::PageDown => {
                self.marked += 20;
                Told::Nothing
            }
            KeyCode::Enter => self.enter(),
            _ => Told::Nothing,
        }
    }

    /// Goes on from the marked row.
    fn enter(&mut self) -> Told {
        let table = self.table();
        let Some(row) = table.rows.get(self.marked.min(table.rows.len().saturating_sub(1))) else {
            return Told::Nothing;
        };
        let key = row.key.clone();
        match self.page {
            Page::Ports => self.go(Page::Drops, Scope { port: Some(key), ..Scope::default() }),
            Page::Tables => self.go(Page::Flows, Scope { table: Some(key), ..Scope::default() }),
            Page::Flows => {
                self.entry = Some(key);
                Told::Nothing
            }
            Page::Drops | Page::Workers | Page::Connections => Told::Nothing,
        }
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let [tabs, head, body, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(2),
            Constraint::Min(0),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        self.draw_tabs(frame, tabs);
        let before = self.before.as_ref().unwrap_or(&self.now);
        let summary = Paragraph::new(pages::head(before, &self.now)).wrap(Wrap { trim: true });
        frame.render_widget(summary, head);
        match &self.entry {
            Some(id) => {
                let lines = pages::entry(id, before, &self.now);
                let lines: Vec<Line<'_>> = lines.into_iter().map(Line::raw).collect();
                let text =
                    Paragraph::new(lines).wrap(Wrap { trim: false }).block(bordered("entry"));
                frame.render_widget(text, body);
            }
            None => self.draw_page(frame, body),
        }
        let keys = match (&self.entry, self.page) {
            (Some(_), _) => "Esc back  p pause  q quit",
            (None, Page::Ports) => {
                "1-6 Tab page  ↑↓ mark  Enter drops of the port  p pause  q quit"
            }
            (None, Page::Tables) => {
                "1-6 Tab page  ↑↓ mark  Enter entries of the table  p pause  q quit"
            }
            (None, Page::Flows) => "1-6 Tab page  ↑↓ mark  Enter all of the entry  p pause  q quit",
            (None, _) => "1-6 Tab page  ↑↓ mark  p pause  q quit",
        };
        frame.render_widget(Line::styled(keys, Style::new().fg(Color::DarkGray)), foot);
    }

    fn draw_tabs(&self, frame: &mut Frame<'_>, area: Rect) {
        let strong = Style::new().add_modifier(Modifier::BOLD);
        let mut words = vec![Span::styled("millrace top ", strong.fg(Color::Cyan))];
        for (n, page) in Page::ALL.iter().enumerate() {
            let style = if *page == self.page {
                strong.add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            words.push(Span::styled(format!(" {} {} ", n + 1, page.name()), style));
        }
        if self.paused {
            words.push(Span::styled("  paused", strong.fg(Color::Yellow)));
        }
        frame.render_widget(Line::from(words), area);
    }

    fn draw_page(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let table = self.table();
        self.marked = self.marked.min(table.rows.len().saturating_sub(1));
        let style = |row: &Row| match (row.bad, row.busy) {
            (true, _) => Style::new().fg(Color::Red),
            (false, true) => Style::new(),
            (false, false) => Style::new().fg(Color::DarkGray),
        };
        let aligned = |text: String, left: bool| {
            let alignment = if left { Alignment::Left } else { Alignment::Right };
            Cell::from(Line::raw(text).alignment(alignment))
        };
        let last = table.columns.len().saturating_sub(1);
        let widths = table.columns.iter().enumerate().map(|(at, column)| {
            let cells = table.rows.iter().map(|row| row.cells[at].chars().count());
            let wide = cells.chain([column.name.len()]).max().unwrap_or(0);
            match at == last && column.left {
                true => Constraint::Min(10),
                false => Constraint::Length(wide.min(WIDE) as u16),
            }
        });
        let widths: Vec<Constraint> = widths.collect();
        let lefts: Vec<bool> = table.columns.iter().map(|column| column.left).collect();
        let names = table.columns.iter().map(|column| aligned(column.name.to_owned(), column.left));
        let names = ratatui::widgets::Row::new(names.collect::<Vec<_>>());
        let rows = table.rows.iter().map(|row| {
            let cells =
                row.cells.iter().zip(&lefts).map(|(cell, left)| aligned(cell.clone(), *left));
            ratatui::widgets::Row::new(cells.collect::<Vec<_>>()).style(style(row))
        });
        let title = match (&self.scope.table, &self.scope.port) {
            (Some(table), _) => format!("{} of {table}", self.page.name()),
            (_, Some(port)) => format!("{} at {port}", self.page.name()),
            _ => self.page.name().to_owned(),
        };
        let mut border = bordered(title);
        if let Some(remark) = &table.remark {
            border = border.title_bottom(remark.clone());
        }
        let shown = ratatui::widgets::Table::new(rows, widths)
            .header(names.style(Style::new().add_modifier(Modifier::BOLD)))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
            .block(border);
        let mut state = TableState::default().with_selected(Some(self.marked));
        frame.render_stateful_widget(shown, area, &mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::pages::tests::readings;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn view(page: Page) -> View {
        let (before, now) = readings();
        let mut view = View::new(page, before);
        view.advance(now);
        view
    }

    fn screen(view: &mut View, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| view.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    fn press(view: &mut View, code: KeyCode) -> Told {
        view.key(KeyEvent::from(code))
    }

    #[test]
    fn each_page_fits_a_screen_of_80_by_24() {
        let holds = [
            (Page::Ports, ["p2", "down", "2.0k"]),
            (Page::Flows, ["tcp,tp_dst=2", "output:2", "of 5"]),
            (Page::Tables, ["t0", "75.0 %", "hash: exact keys"]),
            (Page::Drops, ["action_drop", "80", "An action said drop."]),
            (Page::Workers, ["25.0 %", "320", "32.0"]),
            (Page::Connections, ["held", "q quit", "no connections here"]),
        ];
        for (page, words) in holds {
            let screen = screen(&mut view(page), 80, 24);
            for word in words.into_iter().filter(|word| *word != "held") {
                assert!(screen.contains(word), "{word} is missing:\n{screen}");
            }
        }
    }

    #[test]
    fn no_size_is_too_small() {
        for page in Page::ALL {
            for (width, height) in [(1, 1), (5, 3), (20, 8), (40, 2), (200, 60)] {
                screen(&mut view(page), width, height);
            }
        }
    }

    #[test]
    fn keys_go_from_a_port_to_its_drops_and_from_a_table_to_an_entry() {
        let mut view = view(Page::Ports);
        press(&mut view, KeyCode::Down);
        assert_eq!(press(&mut view, KeyCode::Enter), Told::Read);
        assert_eq!((view.page, view.scope.port.as_deref()), (Page::Drops, Some("p2")));
        assert_eq!(press(&mut view, KeyCode::Esc), Told::Read);
        assert_eq!(view.scope, Scope::default());
        assert_eq!(press(&mut view, KeyCode::Char('3')), Told::Read);
        assert_eq!(press(&mut view, KeyCode::Enter), Told::Read);
        assert_eq!((view.page, view.scope.table.as_deref()), (Page::Flows, Some("t0")));
        let (before, now) = readings();
        (view.before, view.now) = (Some(before), now);
        assert_eq!(press(&mut view, KeyCode::Enter), Told::Nothing);
        // The busiest entry is the first one.
        assert_eq!(view.entry.as_deref(), Some("2"));
        assert!(screen(&mut view, 80, 24).contains("hash: exact keys"));
        press(&mut view, KeyCode::Esc);
        assert_eq!((view.page, &view.entry), (Page::Flows, &None));
        press(&mut view, KeyCode::Char('p'));
        assert!(view.paused);
        assert_eq!(press(&mut view, KeyCode::Char('q')), Told::Quit);
    }
}

//! Tables of a terminal, aligned by hand: numbers to the right, two spaces between columns.

use super::text::{clean, pad, width};

/// A column: its title, and whether it holds numbers.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Title; a line break makes two lines of it.
    pub title: &'static str,
    /// Aligned to the right.
    pub is_number: bool,
}

/// A column of text.
pub const fn text(title: &'static str) -> Column {
    Column { title, is_number: false }
}

/// A column of numbers.
pub const fn number(title: &'static str) -> Column {
    Column { title, is_number: true }
}

/// The lines of the title, then those of the rows, cleaned.
pub fn lines(columns: &[Column], rows: &[Vec<String>]) -> (Vec<String>, Vec<String>) {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let titles: Vec<Vec<&str>> = columns.iter().map(|c| c.title.split('\n').collect()).collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| {
            let in_rows = rows.iter().filter_map(|row| row.get(at)).map(|cell| width(cell));
            let in_title = titles[at].iter().map(|line| width(line));
            in_rows.chain(in_title).max().unwrap_or(0)
        })
        .collect();
    let height = titles.iter().map(Vec::len).max().unwrap_or(0);
    let line = |cells: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = (0..columns.len())
            .map(|at| pad(&cells(at), widths[at], columns[at].is_number))
            .collect();
        format!("  {}", cells.join("  ")).trim_end().to_owned()
    };
    // Titles of fewer lines stand at the bottom.
    let title_line = |row: usize| {
        line(&|at| {
            let missing = height - titles[at].len();
            row.checked_sub(missing).and_then(|n| titles[at].get(n)).copied().unwrap_or("").into()
        })
    };
    let head = (0..height).map(title_line).collect();
    let body =
        rows.iter().map(|row| line(&|at| row.get(at).cloned().unwrap_or_default())).collect();
    (head, body)
}

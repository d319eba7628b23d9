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

/// The widest name of a row that is in line with its numbers.
pub const WIDEST_NAME: usize = 34;

/// The same as [`lines`] for 80 columns, the first cell of a row being its name: one that is too wide stands above its
/// row, whole, as the end of a name tells more than its beginning.
pub fn lines_of_named(columns: &[Column], rows: &[Vec<String>]) -> (Vec<String>, Vec<String>) {
    let is_wide = |row: &Vec<String>| row.first().is_some_and(|name| width(name) > WIDEST_NAME);
    let mut shown = rows.to_vec();
    for row in shown.iter_mut().filter(|row| is_wide(row)) {
        row[0].clear();
    }
    let (head, body) = lines(columns, &shown);
    let of_row = |(row, line): (&Vec<String>, String)| {
        let name = is_wide(row).then(|| format!("  {}", clean(&row[0])));
        name.into_iter().chain([line])
    };
    (head, rows.iter().zip(body).flat_map(of_row).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_too_wide_stands_whole_above_its_row() {
        let names = [
            "virtio",
            "virtio on openvswitch, far_end remote",
            "virtio on openvswitch, far_end guest",
        ];
        let rows: Vec<Vec<String>> =
            names.iter().map(|name| vec![(*name).to_owned(), "12.3".to_owned()]).collect();
        let (head, body) = lines_of_named(&[text("path"), number("rate")], &rows);
        assert_eq!(head, ["  path    rate"]);
        assert_eq!(
            body,
            [
                "  virtio  12.3",
                "  virtio on openvswitch, far_end remote",
                "          12.3",
                "  virtio on openvswitch, far_end guest",
                "          12.3",
            ]
        );
    }
}

//! How streams went over time, and what passed the switch, below the table of a load.

use super::{COLUMNS, Page, Shown, Style, columns, extra, shown, table_of};
use crate::report::columns::Extra;
use crate::report::table::text;
use crate::report::text::width;
use crate::report::values::Workload;

impl Page<'_> {
    /// How streams went over time, and their packets on both sides of the switch: in one table or, where
    /// that is too wide, in two.
    pub(super) fn course(&self, workload: &Workload<'_>) -> String {
        let all = columns::of_course(workload.load(), &workload.cells);
        let (packets, rates): (Vec<_>, Vec<_>) =
            all.iter().copied().partition(|extra| extra.name.starts_with("switch_"));
        let lines = |extras: &[&'static Extra]| {
            let path = shown(text("path"), |cell| cell.path.clone());
            let columns: Vec<Shown> =
                std::iter::once(path).chain(extras.iter().copied().map(extra)).collect();
            table_of(&columns, workload)
        };
        let fits = |(head, body): &(Vec<String>, Vec<String>)| {
            self.wide || head.iter().chain(body).all(|line| width(line) <= COLUMNS)
        };
        let whole = lines(&all);
        let tables = match fits(&whole) {
            true => vec![(all, whole)],
            false => [rates, packets].map(|part| (part.clone(), lines(&part))).to_vec(),
        };
        let told = tables.iter().filter(|(extras, _)| !extras.is_empty());
        let table = |(_, (head, body)): &(Vec<&'static Extra>, (Vec<String>, Vec<String>))| {
            self.style(Style::Faint, &(head.join("\n") + "\n")) + &(body.join("\n") + "\n")
        };
        told.map(table).collect()
    }
}

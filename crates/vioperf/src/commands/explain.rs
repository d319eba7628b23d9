//! `vioperf explain`.

use std::process::ExitCode;

use anyhow::anyhow;
use vioperf_analysis::result::{CellAnalysis, RunAnalysis};
use vioperf_model::suggest::nearest;

use super::report::analysis_of;
use crate::cli::ExplainArgs;
use crate::exit::Failure;
use crate::output::Output;
use crate::report;

/// Tells what limits the cells of a stored run.
pub fn execute(args: &ExplainArgs, output: &Output) -> Result<ExitCode, Failure> {
    let analysis = analysis_of(&args.run, output)?;
    let cells = match &args.cell {
        Some(wanted) => cells_named(&analysis, wanted)?,
        None => analysis.cells.iter().collect(),
    };
    output.result(&report::explain::render(&cells, output.colors_results()))?;
    Ok(ExitCode::SUCCESS)
}

/// The cell of that name, else those whose names contain it.
fn cells_named<'a>(
    analysis: &'a RunAnalysis,
    wanted: &str,
) -> Result<Vec<&'a CellAnalysis>, Failure> {
    if let Some(exact) = analysis.cells.iter().find(|cell| cell.id.0 == wanted) {
        return Ok(vec![exact]);
    }
    let holds = |cell: &&CellAnalysis| cell.id.0.contains(wanted);
    let cells: Vec<&CellAnalysis> = analysis.cells.iter().filter(holds).collect();
    if !cells.is_empty() {
        return Ok(cells);
    }
    let names = || analysis.cells.iter().map(|cell| cell.id.0.as_str());
    let hint = match nearest(wanted, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("its cells are: {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::Usage(anyhow!("the run has no cell `{wanted}`; {hint}")))
}
